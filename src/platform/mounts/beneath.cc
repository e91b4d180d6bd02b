#include "platform/mounts/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace berth::platform {

int OpenBelow(int root, const char* path, int flags) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  // EAGAIN means that something was renamed meanwhile, so the kernel could not tell whether ".."
  // stayed inside. The attempts are bounded, because a container may rename for ever.
  constexpr int kTries = 128;
  int fd = -1;
  for (int i = 0; i < kTries; ++i) {
    fd = static_cast<int>(syscall(SYS_openat2, root, path, &how, sizeof(how)));
    if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) break;
  }
  return fd < 0 ? -errno : fd;
}

std::optional<std::vector<PathLevel>> SplitPath(std::string_view relative) {
  if (relative.starts_with('/') || relative.find('\0') != std::string_view::npos) return {};
  std::vector<PathLevel> levels;
  std::string prefix;
  for (size_t begin = 0; begin < relative.size();) {
    const size_t end = std::min(relative.find('/', begin), relative.size());
    std::string part(relative.substr(begin, end - begin));
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return {};
    prefix += (prefix.empty() ? "" : "/") + part;
    levels.push_back({.prefix = prefix, .name = std::move(part)});
  }
  return levels;
}

int MakeLevelsBelow(int root, const std::vector<PathLevel>& levels, mode_t mode) {
  int at = OpenBelow(root, ".", O_PATH);
  for (const PathLevel& level : levels) {
    if (at < 0) return at;
    int next = OpenBelow(root, level.prefix.c_str(), O_PATH);
    if (next == -ENOENT) {
      const bool made = mkdirat(at, level.name.c_str(), mode) == 0;
      if (!made && errno != EEXIST) return -errno;
      next = OpenBelow(root, level.prefix.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      // The umask does not apply.
      if (next >= 0 && made && fchmod(next, mode) != 0) return -errno;
    }
    if (next < 0) return next;
    close(at);
    at = next;
  }
  return at;
}

}  // namespace berth::platform
