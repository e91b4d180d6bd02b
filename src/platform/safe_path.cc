#include "platform/safe_path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "platform/errno.h"

namespace berth::platform {
namespace {

using base::Quote;

base::Status Escapes(std::string_view relative) {
  return base::Error(base::StatusCode::kPermissionDenied,
                     "path {} leads out of its volume, or through a magic link", Quote(relative));
}

// -1 with errno. EAGAIN means that something was renamed meanwhile, so that the kernel could not
// tell whether ".." stayed inside; a container that renames for ever must not hold this up.
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

base::Status OpenFailure(int error, std::string_view relative) {
  if (error == EXDEV || error == ELOOP) return Escapes(relative);
  return ErrnoError(error, fmt::format("open {}", Quote(relative)));
}

}  // namespace

base::StatusOr<base::UniqueFd> OpenBeneath(int root, std::string_view relative) {
  const std::string path = relative.empty() ? "." : std::string(relative);
  if (path.find('\0') != std::string::npos) return Escapes(relative);
  base::UniqueFd fd(OpenAt2(root, path, O_PATH));
  if (!fd.valid()) return OpenFailure(errno, relative);
  return fd;
}

base::StatusOr<base::UniqueFd> MakeFoldersBeneath(int root, std::string_view relative,
                                                  mode_t mode) {
  ASSIGN_OR_RETURN(base::UniqueFd at, OpenBeneath(root, ""));
  if (relative.starts_with('/') || relative.find('\0') != std::string_view::npos) {
    return Escapes(relative);
  }
  // Each prefix is resolved from the root, so that a symlink within the volume may use "..".
  std::string prefix;
  for (size_t begin = 0; begin < relative.size();) {
    const size_t end = std::min(relative.find('/', begin), relative.size());
    const std::string part(relative.substr(begin, end - begin));
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return Escapes(relative);
    prefix += (prefix.empty() ? "" : "/") + part;
    base::UniqueFd next(OpenAt2(root, prefix, O_PATH));
    if (!next.valid() && errno == ENOENT) {
      const bool made = mkdirat(at.get(), part.c_str(), mode) == 0;
      if (!made && errno != EEXIST) {
        return ErrnoError(errno, fmt::format("make folder {}", Quote(relative)));
      }
      next.Reset(OpenAt2(root, prefix, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
      if (!next.valid()) return OpenFailure(errno, relative);
      // The umask does not apply.
      if (made && fchmod(next.get(), mode) != 0) {
        return ErrnoError(errno, fmt::format("chmod {}", Quote(relative)));
      }
    }
    if (!next.valid()) return OpenFailure(errno, relative);
    at = std::move(next);
  }
  return at;
}

base::StatusOr<base::UniqueFd> OpenFolder(const std::string& path) {
  base::UniqueFd fd(open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, fmt::format("open folder {}", Quote(path)));
  return fd;
}

std::string ProcPath(const base::UniqueFd& fd) { return fmt::format("/proc/self/fd/{}", fd.get()); }

}  // namespace berth::platform
