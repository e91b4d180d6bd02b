#include "cmd/berth-oci/files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace berth::oci {

namespace ipc = base::ipc;

ipc::Result<std::string> ReadFile(const std::string& path, size_t largest) {
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    ipc::Failure failure = ipc::SystemFailure("open '" + path + "'", errno);
    if (errno == ENOENT) failure.problem = ipc::Problem::kNobody;
    return failure;
  }
  std::string text;
  char buffer[65536];
  while (true) {
    const ssize_t size = read(fd.get(), buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return ipc::SystemFailure("read '" + path + "'", errno);
    if (size == 0) return text;
    text.append(buffer, static_cast<size_t>(size));
    if (text.size() > largest) {
      return ipc::Failure{ipc::Problem::kTooLarge,
                          "'" + path + "' is larger than " + std::to_string(largest) + " bytes"};
    }
  }
}

void Write(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(fd, text.data(), text.size());
    if (count < 0 && errno != EINTR) return;
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace berth::oci
