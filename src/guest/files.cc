#include "guest/files.h"

#include <errno.h>
#include <fcntl.h>

#include "base/files/whole_file.h"
#include "base/ipc/result.h"
#include "base/unique_fd.h"

namespace berth::guest {

std::string ReadFile(const std::string& path) {
  constexpr size_t kLargest = size_t{1} << 20;
  std::string text;
  base::ReadWholeFile(path, kLargest, text);
  return text;
}

std::string WriteFile(const std::string& path, std::string_view text) {
  const base::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return Describe("open " + path, errno);
  const int error = base::WriteAll(fd.get(), text);
  return error == 0 ? "" : Describe("write " + path, error);
}

std::string Describe(std::string_view context, int error) {
  return base::ipc::SystemFailure(context, error).text;
}

}  // namespace berth::guest
