#include "platform/walks/ownership.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>

#include "base/log.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/files/folder_walk.h"
#include "platform/mounts/mounter.h"
#include "platform/mounts/safe_path.h"
#include "platform/walks/inode_scan.h"
#include "platform/walks/long_work.h"
#include "platform/walks/parallel_walk.h"

namespace berth::platform {
namespace {

using base::Quote;
using base::Status;
using base::StatusCode;
using base::UniqueFd;

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

// fchmod refuses O_PATH, and fchmodat follows symlinks; fchmodat2 came with Linux 6.6.
int ChangeMode(int folder, const char* name, mode_t mode, int flags) {
  static std::atomic<bool> known = true;
  if (known) {
    if (syscall(SYS_fchmodat2, folder, name, mode, flags) == 0) return 0;
    if (errno != ENOSYS) return errno;
    known = false;
  }
  return ENOSYS;
}

// The path of a descriptor, also if only this thread has it (long_work.h).
std::string OwnPath(const UniqueFd& fd) { return fmt::format("/proc/thread-self/fd/{}", fd.get()); }

// It works by the descriptor, because a path may name another file now.
int ChangeMode(const UniqueFd& fd, mode_t mode) {
  const int error = ChangeMode(fd.get(), "", mode, AT_EMPTY_PATH);
  if (error != ENOSYS) return error;
  return chmod(OwnPath(fd).c_str(), mode) == 0 ? 0 : errno;
}

// What file systems answer that keep no group or no mode of a file, or not this one's: those on
// FUSE that stand for an object store, NFS with squashed users, immutable files. A mount that is
// dead answers otherwise.
bool IsRefusal(int error) {
  return error == EPERM || error == EACCES || error == EROFS || error == ENOSYS ||
         error == EINVAL || error == EOPNOTSUPP || error == EIO;
}

class GroupSetter {
 public:
  // The borrowed arguments are on the stack of the thread that does the work.
  GroupSetter(const std::string& root, const FsGroupOptions& options, LongWork& work)
      : root_(root), options_(options), work_(work) {}

  // Handles one entry of a folder. A folder is kept open in `*open`, for the walk of its content.
  // `mounts_inside`: something may be mounted below the root, so that a look by name would go
  // through a mount, to a file system that may hang.
  Status VisitEntry(int folder, const char* name, unsigned char type, bool mounts_inside,
                    UniqueFd* open) const {
    const bool by_name = type != DT_DIR && type != DT_UNKNOWN && !mounts_inside;
    struct stat st;
    if (by_name) {
      if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0) {
        return errno == ENOENT ? base::OkStatus() : Failure(errno, "stat", name);
      }
      if (IsRight(st)) return base::OkStatus();
      if (!S_ISDIR(st.st_mode) && (!NeedsMode(st) || IsExclusive())) {
        const int error = ApplyByName(folder, name, st);
        if (error == 0 || error == ENOENT) return base::OkStatus();
        if (error != ENOSYS) return LeaveRefused(Failure(error, "change", name), error);
      }
    }
    // O_PATH opens no device and waits for no FIFO.
    UniqueFd fd = OpenWithinMount(folder, name, O_PATH);
    if (!fd.valid()) {
      // It was removed meanwhile, or another mount is there, which does not belong to this volume.
      if (errno == ENOENT || errno == EXDEV) return base::OkStatus();
      return Failure(errno, "open", name);
    }
    if (fstat(fd.get(), &st) != 0) return Failure(errno, "stat", name);
    RETURN_IF_ERROR(ApplyGroup(fd, st));
    if (S_ISDIR(st.st_mode)) *open = std::move(fd);
    return base::OkStatus();
  }

  Status ApplyGroup(const UniqueFd& fd, const struct stat& st) const {
    if (IsRight(st)) return base::OkStatus();
    const bool mode = NeedsMode(st);
    if (st.st_gid != options_.group &&
        fchownat(fd.get(), "", static_cast<uid_t>(-1), options_.group, AT_EMPTY_PATH) != 0) {
      const int error = errno;
      RETURN_IF_ERROR(LeaveRefused(Failure(error, "chown"), error));
    }
    if (!mode) return base::OkStatus();
    const int error = ChangeMode(fd, WantedMode(st.st_mode));
    return error == 0 ? base::OkStatus() : LeaveRefused(Failure(error, "chmod"), error);
  }

  // Tells once, at the end of the walk, what was left as it is.
  void ReportRefused() const {
    base::MutexLock lock(mutex_);
    if (refused_ == 0) return;
    LOG_WARNING("{}; the file system refused {} such changes, and its files stay as they are",
                first_refused_, refused_);
  }

  bool IsRight(mode_t mode, gid_t group) const {
    return group == options_.group && (S_ISLNK(mode) || (mode & 07777) == WantedMode(mode));
  }
  bool IsRight(const struct stat& st) const { return IsRight(st.st_mode, st.st_gid); }

  Status CancelledError() const {
    return base::Error(StatusCode::kCancelled, "set fsGroup on {}: cancelled", Quote(root_));
  }

  Status Failure(int error, std::string_view call, std::string_view name = "") const {
    return ErrnoError(error, name.empty() ? fmt::format("set fsGroup on {}: {}", Quote(root_), call)
                                          : fmt::format("set fsGroup on {}: {} {}", Quote(root_),
                                                        call, Quote(name)));
  }

 private:
  // The pod starts without a change that the file system refuses, as under a kubelet: perhaps it
  // needs none, and else its own access fails. Any other failure is given back.
  Status LeaveRefused(const Status& failure, int error) const {
    if (!IsRefusal(error)) return failure;
    base::MutexLock lock(mutex_);
    if (refused_++ == 0) first_refused_ = base::Message(failure);
    return base::OkStatus();
  }

  // Sets group and mode by name; not for folders. If another file has the name by now, it may get
  // the group, but not the mode, which is computed from the first file. Returns 0 or an errno.
  int ApplyByName(int folder, const char* name, const struct stat& st) const {
    if (st.st_gid != options_.group &&
        fchownat(folder, name, static_cast<uid_t>(-1), options_.group, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno;
    }
    return NeedsMode(st) ? ChangeMode(folder, name, WantedMode(st.st_mode), AT_SYMLINK_NOFOLLOW)
                         : 0;
  }

  bool IsExclusive() const {
    return options_.exclusive &&
           (!options_.still_exclusive || work_.AskCaller(options_.still_exclusive));
  }

  mode_t WantedMode(mode_t mode) const {
    mode_t mask = options_.read_only ? 0440 : 0660;
    if (S_ISDIR(mode)) mask |= S_ISGID | 0110;
    return (mode & 07777) | mask;
  }

  // A chown clears setuid and setgid of everything but folders, so the mode must be set again after
  // one.
  bool NeedsMode(const struct stat& st) const {
    if (S_ISLNK(st.st_mode)) return false;
    const mode_t wanted = WantedMode(st.st_mode);
    return (st.st_mode & 07777) != wanted ||
           (!S_ISDIR(st.st_mode) && (wanted & (S_ISUID | S_ISGID)) != 0);
  }

  const std::string& root_;
  const FsGroupOptions& options_;
  LongWork& work_;
  mutable base::Mutex mutex_;  // the walk has several threads
  mutable uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable std::string first_refused_ ABSL_GUARDED_BY(mutex_);
};

// Whether something is mounted below `folder` in this process's mount namespace; true if that is
// not known. A mount that is in no namespace has no mounts inside.
bool HasMountsInside(const UniqueFd& folder) {
  struct statx st = {};
  char path[PATH_MAX];
  const auto table = NewMounter()->List();
  if (!table.ok() || statx(folder.get(), "", AT_EMPTY_PATH, STATX_MNT_ID, &st) != 0 ||
      (st.stx_mask & STATX_MNT_ID) == 0) {
    return true;
  }
  const ssize_t size = readlink(OwnPath(folder).c_str(), path, sizeof(path));
  if (size <= 0 || size == sizeof(path)) return true;
  std::string below(path, static_cast<size_t>(size));
  if (!below.ends_with('/')) below += '/';
  return std::any_of(table->begin(), table->end(), [&](const MountEntry& mount) {
    return mount.parent_id == st.stx_mnt_id && mount.mount_point.starts_with(below);
  });
}

// Runs on a thread that may be given up (long_work.h).
Status SetGroupOfTree(int root, const std::string& name, const FsGroupOptions& options,
                      LongWork& work) {
  const GroupSetter setter(name, options, work);
  const UniqueFd folder(openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat st;
  if (!folder.valid() || fstat(folder.get(), &st) != 0) return setter.Failure(errno, "open");
  const auto cancelled = [&work] { return work.cancelled(); };
  if (setter.IsRight(st)) {
    if (options.only_on_root_mismatch) return base::OkStatus();
    // The root is changed last, so if it is right then most likely everything is.
    const auto is_right = [&](const InodeOwner& inode) {
      return setter.IsRight(inode.mode, inode.group);
    };
    if (HoldsForEveryInode(folder.get(), is_right, cancelled) == true) return base::OkStatus();
  }
  const bool mounts_inside = HasMountsInside(folder);
  RETURN_IF_ERROR(WalkInParallel(
      folder.get(), {.name = name,
                     .visit =
                         [&](int parent, const char* entry, unsigned char type, UniqueFd* open) {
                           RETURN_IF_ERROR(
                               setter.VisitEntry(parent, entry, type, mounts_inside, open));
                           work.CountOne();
                           return base::OkStatus();
                         },
                     .cancelled = cancelled}));
  if (work.cancelled()) return setter.CancelledError();
  const Status root_done = setter.ApplyGroup(folder, st);
  setter.ReportRefused();
  return root_done;
}

}  // namespace

Status ApplyFsGroup(int root, const std::string& name, const FsGroupOptions& options) {
  return RunLongWork(root,
                     {.what = fmt::format("set fsGroup on {}", Quote(name)),
                      .patience = options.patience,
                      .cancelled = options.cancelled,
                      .progress = options.progress,
                      .progress_interval = options.progress_interval},
                     [name, options](int folder, LongWork& work) {
                       return SetGroupOfTree(folder, name, options, work);
                     });
}

Status ApplyFsGroup(const std::string& root, const FsGroupOptions& options) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFolder(root));
  return ApplyFsGroup(fd.get(), root, options);
}

}  // namespace berth::platform
