#include "guest/group_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/unique_fd.h"
#include "guest/files.h"

namespace berth::guest {
namespace {

constexpr int kDeepest = 1000;

// As the walk of platform: what file systems answer that do not keep a file's group or mode.
bool IsRefusal(int error) {
  return error == EPERM || error == EACCES || error == EROFS || error == ENOSYS ||
         error == EINVAL || error == EOPNOTSUPP || error == EIO;
}

class Walk {
 public:
  explicit Walk(const GroupOptions& options) : options_(options) {}

  std::string Run(const std::string& root) {
    base::UniqueFd folder(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat st = {};
    if (!folder.valid() || fstat(folder.get(), &st) != 0) return Describe("open " + root, errno);
    if (options_.only_on_root_mismatch && IsRight(st)) return "";
    if (const int error = VisitFolder(std::move(folder), 0); error != 0) {
      return Describe("set fsGroup", error);
    }
    const int error = Apply(AT_FDCWD, root.c_str(), st);
    return error == 0 ? "" : Describe("set fsGroup on the root folder", error);
  }

 private:
  // 0 or an errno.
  int VisitFolder(base::UniqueFd fd, int depth) {
    if (depth > kDeepest) return ELOOP;
    DIR* folder = fdopendir(fd.get());
    if (folder == nullptr) return errno;
    (void)fd.Release();
    int error = 0;
    while (error == 0) {
      errno = 0;
      const dirent* entry = readdir(folder);
      if (entry == nullptr) {
        error = errno;
        break;
      }
      if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
      error = VisitEntry(dirfd(folder), entry->d_name, depth);
    }
    closedir(folder);
    return error;
  }

  int VisitEntry(int folder, const char* name, int depth) {
    struct stat st = {};
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? 0 : errno;
    if (S_ISDIR(st.st_mode)) {
      base::UniqueFd inner(openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!inner.valid()) return errno;
      if (const int error = VisitFolder(std::move(inner), depth + 1); error != 0) return error;
    }
    return Apply(folder, name, st);
  }

  int Apply(int folder, const char* name, const struct stat& st) const {
    if (IsRight(st)) return 0;
    if (st.st_gid != options_.group &&
        fchownat(folder, name, static_cast<uid_t>(-1), options_.group, AT_SYMLINK_NOFOLLOW) != 0 &&
        !IsRefusal(errno)) {
      return errno;
    }
    // A chown clears setuid and setgid, so the mode is set again.
    if (S_ISLNK(st.st_mode)) return 0;
    if (fchmodat(folder, name, ModeForGroup(st.st_mode), 0) == 0 || IsRefusal(errno)) return 0;
    return errno;
  }

  bool IsRight(const struct stat& st) const {
    return st.st_gid == options_.group &&
           (S_ISLNK(st.st_mode) || (st.st_mode & 07777) == ModeForGroup(st.st_mode));
  }

  const GroupOptions options_;
};

}  // namespace

mode_t ModeForGroup(mode_t mode) {
  mode_t mask = 0660;
  if (S_ISDIR(mode)) mask |= S_ISGID | 0110;
  return (mode & 07777) | mask;
}

std::string GiveToGroup(const std::string& root, const GroupOptions& options) {
  return Walk(options).Run(root);
}

}  // namespace berth::guest
