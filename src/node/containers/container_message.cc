#include "node/containers/container_message.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/unique_fd.h"
#include "node/containers/container_log.h"

namespace berth::node {

namespace {

constexpr off_t kMaxMessage = 4096;
constexpr size_t kMaxLogMessage = 2048;
constexpr int64_t kMaxLogLines = 80;

// The last kMaxMessage bytes of a file; "" if it cannot be read. The container may have written
// anything into the file, but cannot replace it.
std::string ReadTail(const std::string& path) {
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!fd.valid() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return "";
  std::string out(static_cast<size_t>(std::min(info.st_size, kMaxMessage)), '\0');
  const ssize_t size =
      pread(fd.get(), out.data(), out.size(), std::max<off_t>(0, info.st_size - kMaxMessage));
  out.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return out;
}

}  // namespace

std::string ReadTerminationMessage(const ContainerState& container) {
  std::string message =
      container.termination_file.empty() ? "" : ReadTail(container.termination_file);
  if (!message.empty() || container.termination_policy != "FallbackToLogsOnError" ||
      container.exit_code == 0 || container.log_path.empty()) {
    return message;
  }
  const LogOptions options{.tail_lines = kMaxLogLines};
  const auto keep = [&](std::string_view bytes) {
    message += bytes;
    if (message.size() > kMaxLogMessage) message.erase(0, message.size() - kMaxLogMessage);
    return true;
  };
  const auto no = [] { return false; };
  // Without its log the container has no message; that is no failure of the pod.
  (void)ReadContainerLog(container.log_path, options, keep, no, no);
  return message;
}

}  // namespace berth::node
