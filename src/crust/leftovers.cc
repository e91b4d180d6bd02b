#include "crust/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/files/folder_walk.h"

namespace berth::crust {
namespace {

// No path has more parts than this, because a path has at most 4,096 bytes.
constexpr int kMaxDepth = 2048;

// Returns 0 or an errno.
int RemoveEmptyFoldersIn(int folder, int depth) {
  std::vector<std::string> folders;
  if (const int error = platform::ForEachEntry(folder, 0,
                                               [&](const char* name, unsigned char type) {
                                                 if (type == DT_DIR) folders.emplace_back(name);
                                               });
      error != 0) {
    return error;
  }
  for (const std::string& name : folders) {
    {
      const base::UniqueFd inner =
          platform::OpenWithinMount(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      if (!inner.valid()) {
        if (errno == ENOENT || errno == EXDEV || errno == ELOOP || errno == ENOTDIR) continue;
        return errno;
      }
      if (depth < kMaxDepth) {
        if (const int error = RemoveEmptyFoldersIn(inner.get(), depth + 1); error != 0)
          return error;
      }
    }
    if (unlinkat(folder, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT &&
        errno != ENOTEMPTY && errno != EEXIST && errno != EBUSY) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

base::Status RemoveEmptyFolders(const std::string& target) {
  const std::string what = fmt::format("remove empty folders below {}", base::Quote(target));
  struct statx found = {};
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  if (statx(AT_FDCWD, target.c_str(), kFlags, STATX_TYPE, &found) != 0) {
    return errno == ENOENT || errno == ENOTDIR ? base::OkStatus()
                                               : platform::ErrnoError(errno, what);
  }
  if ((found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 || !S_ISDIR(found.stx_mode)) {
    return base::OkStatus();
  }
  const base::UniqueFd folder(
      open(target.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid()) {
    return errno == ENOENT ? base::OkStatus() : platform::ErrnoError(errno, what);
  }
  const int error = RemoveEmptyFoldersIn(folder.get(), 0);
  return error == 0 ? base::OkStatus() : platform::ErrnoError(error, what);
}

}  // namespace berth::crust
