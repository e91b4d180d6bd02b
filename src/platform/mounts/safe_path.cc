#include "platform/mounts/safe_path.h"

#include <fcntl.h>

#include <cerrno>
#include <charconv>

#include "base/log.h"
#include "platform/errno.h"
#include "platform/mounts/beneath.h"
#include "platform/processes/child.h"

namespace berth::platform {
namespace {

using base::Quote;

// A path can lead through a file system that is dead.
constexpr std::chrono::seconds kTimeout(10);
constexpr std::string_view kDescriptors = "/proc/self/fd/";

base::Status EscapeError(std::string_view relative) {
  return base::Error(base::StatusCode::kPermissionDenied,
                     "path {} leads out of its volume, or through a magic link", Quote(relative));
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

}  // namespace

base::StatusOr<base::UniqueFd> OpenBeneath(int root, std::string_view relative) {
  const std::string path = relative.empty() ? "." : std::string(relative);
  if (path.find('\0') != std::string::npos) return EscapeError(relative);
  return OpenByChild(root, relative,
                     [root, path] { return OpenBelow(root, path.c_str(), O_PATH); });
}

base::StatusOr<base::UniqueFd> MakeFoldersBeneath(int root, std::string_view relative,
                                                  mode_t mode) {
  const std::optional<std::vector<PathLevel>> levels = SplitPath(relative);
  if (!levels.has_value()) return EscapeError(relative);
  return OpenByChild(root, relative, [root, levels = *levels, mode] {
    return MakeLevelsBelow(root, levels, mode);
  });
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
