#include "platform/mounts/safe_path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "base/log.h"
#include "platform/errno.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

using base::Quote;

// A path can lead through a file system that is dead.
constexpr std::chrono::seconds kTimeout(10);
const std::string kThisFolder = ".";
constexpr std::string_view kDescriptors = "/proc/self/fd/";

base::Status EscapeError(std::string_view relative) {
  return base::Error(base::StatusCode::kPermissionDenied,
                     "path {} leads out of its volume, or through a magic link", Quote(relative));
}

// Returns a descriptor, or -1 with errno. EAGAIN means that something was renamed meanwhile, so the
// kernel could not tell whether ".." stayed inside. The attempts are bounded, because a container
// may rename for ever.
int OpenAt2(int root, const std::string& relative, int flags) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  constexpr int kTries = 128;
  int fd = -1;
  for (int i = 0; i < kTries; ++i) {
    fd = static_cast<int>(syscall(SYS_openat2, root, relative.c_str(), &how, sizeof(how)));
    if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) break;
  }
  return fd;
}

// Returns the descriptor that `body` opened beneath `root` in a child.
base::StatusOr<base::UniqueFd> OpenByChild(int root, std::string_view relative,
                                           std::function<int()> body) {
  const std::string what = fmt::format("open {}", Quote(relative));
  ASSIGN_OR_RETURN(OpenedInChild opened, OpenInChild(what, kTimeout, std::move(body), {root}));
  if (opened.error == EXDEV || opened.error == ELOOP) return EscapeError(relative);
  if (opened.error != 0) return ErrnoError(opened.error, what);
  return std::move(opened.fd);
}

// A folder on the way: its path from the root, and its name in its parent.
struct Level {
  std::string prefix;
  std::string name;
};

// Runs in a child. Returns the last level's folder, or a negative errno.
int MakeLevels(int root, const std::vector<Level>& levels, mode_t mode) {
  int at = OpenAt2(root, kThisFolder, O_PATH);
  for (const Level& level : levels) {
    if (at < 0) return -errno;
    int next = OpenAt2(root, level.prefix, O_PATH);
    if (next < 0 && errno == ENOENT) {
      const bool made = mkdirat(at, level.name.c_str(), mode) == 0;
      if (!made && errno != EEXIST) return -errno;
      next = OpenAt2(root, level.prefix, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      // The umask does not apply.
      if (next >= 0 && made && fchmod(next, mode) != 0) return -errno;
    }
    if (next < 0) return -errno;
    close(at);
    at = next;
  }
  return at < 0 ? -errno : at;
}

}  // namespace

base::StatusOr<base::UniqueFd> OpenBeneath(int root, std::string_view relative) {
  const std::string path = relative.empty() ? "." : std::string(relative);
  if (path.find('\0') != std::string::npos) return EscapeError(relative);
  return OpenByChild(root, relative, [root, path] {
    const int fd = OpenAt2(root, path, O_PATH);
    return fd < 0 ? -errno : fd;
  });
}

base::StatusOr<base::UniqueFd> MakeFoldersBeneath(int root, std::string_view relative,
                                                  mode_t mode) {
  if (relative.starts_with('/') || relative.find('\0') != std::string_view::npos) {
    return EscapeError(relative);
  }
  // Each prefix is resolved from the root, so that a symlink within the volume may contain "..".
  std::vector<Level> levels;
  std::string prefix;
  for (size_t begin = 0; begin < relative.size();) {
    const size_t end = std::min(relative.find('/', begin), relative.size());
    std::string part(relative.substr(begin, end - begin));
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return EscapeError(relative);
    prefix += (prefix.empty() ? "" : "/") + part;
    levels.push_back({.prefix = prefix, .name = std::move(part)});
  }
  return OpenByChild(root, relative,
                     [root, levels, mode] { return MakeLevels(root, levels, mode); });
}

base::StatusOr<base::UniqueFd> OpenFolder(const std::string& path) {
  const std::string what = fmt::format("open folder {}", Quote(path));
  ASSIGN_OR_RETURN(OpenedInChild opened, OpenInChild(what, kTimeout, [path] {
                     const int fd =
                         open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                     return fd < 0 ? -errno : fd;
                   }));
  if (opened.error != 0) return ErrnoError(opened.error, what);
  return std::move(opened.fd);
}

std::string ProcPath(const base::UniqueFd& fd) {
  return fmt::format("{}{}", kDescriptors, fd.get());
}

std::vector<int> ParseDescriptors(std::initializer_list<std::string_view> paths) {
  std::vector<int> fds;
  for (const std::string_view path : paths) {
    if (!path.starts_with(kDescriptors)) continue;
    int fd = -1;
    std::from_chars(path.data() + kDescriptors.size(), path.data() + path.size(), fd);
    if (fd >= 0) fds.push_back(fd);
  }
  return fds;
}

}  // namespace berth::platform
