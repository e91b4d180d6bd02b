#include "guest/files.h"

#include <errno.h>
#include <fcntl.h>

#include "base/ipc/result.h"
#include "base/unique_fd.h"

namespace berth::guest {

std::string ReadFile(const std::string& path) {
  constexpr size_t kLargest = size_t{1} << 20;
  std::string text;
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char buffer[4096];
  while (fd.valid() && text.size() < kLargest) {
    const ssize_t size = read(fd.get(), buffer, sizeof buffer);
    if (size <= 0) break;
    text.append(buffer, static_cast<size_t>(size));
  }
  return text;
}

std::string WriteFile(const std::string& path, std::string_view text) {
  const base::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return Describe("open " + path, errno);
  if (write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return "";
  return Describe("write " + path, errno);
}

std::string Describe(std::string_view context, int error) {
  return base::ipc::SystemFailure(context, error).text;
}

}  // namespace berth::guest
