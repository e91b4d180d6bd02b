#include "platform/files/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/files/private_mode.h"
#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"

namespace berth::platform {
namespace {

using base::Quote;

constexpr mode_t kOfOthers = S_IRWXG | S_IRWXO;

bool IsMountRoot(const struct statx& st) {
  return (st.stx_attributes_mask & st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

// Returns why others use the folder as well; "": only Berth uses it.
base::StatusOr<std::string> FindOtherUse(const NamedFolder& folder, const struct statx& st) {
  if (IsMountRoot(st)) return std::string("it is the root of a mounted file system");
  if (folder.path.find_last_of('/', folder.path.find_last_not_of('/')) == 0) {
    return std::string("it is directly below '/'");
  }
  ASSIGN_OR_RETURN(const auto present, ListFolder(folder.path));
  for (const std::string& name : present) {
    if (IsTornWrite(name)) continue;
    if (std::find(folder.names.begin(), folder.names.end(), name) == folder.names.end()) {
      return fmt::format("it holds {}, which is not Berth's", Quote(name));
    }
  }
  return std::string();
}

base::StatusOr<FolderPrivacy> KeepOpen(const NamedFolder& folder, mode_t mode,
                                       std::string_view why) {
  if ((mode & S_IWOTH) != 0 && folder.writers == NamedFolder::Writers::kRefused) {
    return base::Error(base::StatusCode::kFailedPrecondition,
                       "all users can write in {} (mode {:04o}), and it stays so, because {}: name "
                       "a folder that is Berth's own, such as a new one in it",
                       Quote(folder.path), mode, why);
  }
  LOG_WARNING(
      "other users keep their rights to {} (mode {:04o}), because {}; what Berth makes in "
      "it is private",
      Quote(folder.path), mode, why);
  return FolderPrivacy::kOpen;
}

}  // namespace

base::Status MakePrivateFolder(const std::string& path) {
  RETURN_IF_ERROR(MakeFolders(path, 0700));
  return base::TightenMode(path);
}

base::StatusOr<FolderPrivacy> MakeNamedFolder(const NamedFolder& folder) {
  RETURN_IF_ERROR(MakeFolders(folder.path, 0700));
  struct statx st;
  if (statx(AT_FDCWD, folder.path.c_str(), 0, STATX_MODE, &st) != 0) {
    return ErrnoError(errno, fmt::format("stat {}", Quote(folder.path)));
  }
  const mode_t mode = st.stx_mode & 07777;
  if ((mode & kOfOthers) == 0) return FolderPrivacy::kPrivate;
  // TightenMode refuses a folder that all users share.
  const bool shared_by_all = (mode & S_ISVTX) != 0 && (mode & S_IWOTH) != 0;
  if (!shared_by_all) {
    ASSIGN_OR_RETURN(const std::string other_use, FindOtherUse(folder, st));
    if (!other_use.empty()) return KeepOpen(folder, mode, other_use);
  }
  const base::Status closed = base::TightenMode(folder.path);
  if (closed.ok()) return FolderPrivacy::kPrivate;
  if (closed.code() != base::StatusCode::kPermissionDenied) return closed;
  return KeepOpen(folder, mode, base::Message(closed));
}

}  // namespace berth::platform
