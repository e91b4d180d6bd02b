#include "volume/flex/flex_mount_points.h"

#include <sys/stat.h>

#include <cerrno>

#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "volume/volume_files.h"

namespace berth::volume {
namespace {

using base::Error;
using base::MutexLock;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr int kMaxStacked = 16;

// Whether a folder exists that is no mount point. This cannot block, because its parent is on the
// kubelet's own file system.
StatusOr<bool> Exists(const std::string& folder) {
  struct stat st;
  if (lstat(folder.c_str(), &st) == 0) return true;
  const int error = errno;
  if (error == ENOENT || error == ENOTDIR) return false;
  return platform::ErrnoError(error, fmt::format("stat {}", Quote(folder)));
}

}  // namespace

bool MayHaveHappened(const Status& failure) {
  switch (failure.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kCancelled:
    case StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

StatusOr<bool> FlexMountPoints::IsMounted(const std::string& folder) const {
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  return platform::FindMount(table, folder) != nullptr;
}

// OK: a version is held for the folder. So this node agent mounted there, because a version is held
// from before its call until its mount is gone.
Status FlexMountPoints::CheckOwnMount(const std::string& folder) const {
  ASSIGN_OR_RETURN(const bool held, versions_.IsHeld(folder));
  if (held) return OkStatus();
  return Error(StatusCode::kFailedPrecondition,
               "this node agent did not make the mount at {}: unmount it", Quote(folder));
}

Status FlexMountPoints::UndoMount(const DriverVersion& version, const std::string& folder,
                                  const Call& unmount) {
  Status undone = unmount(version);
  if (undone.ok()) {
    const auto mounted = IsMounted(folder);
    RETURN_IF_ERROR(mounted);
    if (*mounted) undone = Error(StatusCode::kFailedPrecondition, "it is still mounted");
  }
  MutexLock lock(mutex_);
  if (undone.ok()) {
    distrusted_.erase(folder);
  } else {
    distrusted_.insert(folder);
  }
  return base::Annotate(
      undone, fmt::format("take back what a call that failed mounted at {}", Quote(folder)));
}

Status FlexMountPoints::Mount(const std::string& folder, const Call& mount, const Call& unmount) {
  bool distrusted = false;
  {
    MutexLock lock(mutex_);
    distrusted = distrusted_.contains(folder);
  }
  ASSIGN_OR_RETURN(const bool mounted, IsMounted(folder));
  if (mounted && !distrusted) return CheckOwnMount(folder);
  if (mounted) {
    ASSIGN_OR_RETURN(const DriverVersion version, versions_.ChooseForTearDown(kind_, folder, {}));
    RETURN_IF_ERROR(UndoMount(version, folder, unmount));
  }
  ASSIGN_OR_RETURN(const DriverVersion version, versions_.Current());
  ASSIGN_OR_RETURN(const bool existed, Exists(folder));
  RETURN_IF_ERROR(platform::MakeFolders(folder, 0750));
  RETURN_IF_ERROR(versions_.HoldVersion(version, folder));
  const Status done = mount(version);
  if (done.ok() || MayHaveHappened(done)) return done;
  ASSIGN_OR_RETURN(const bool left, IsMounted(folder));
  if (left) {
    const Status taken = UndoMount(version, folder, unmount);
    if (!taken.ok())
      return Error(done.code(), "{}; {}", base::Message(done), base::ToString(taken));
  }
  // A later call that did nothing must not undo what an earlier call may have done.
  if (!existed) {
    const Status removed = RemoveMountPoint(folder);
    if (!removed.ok()) LOG_WARNING("clean up after a failed mount: {}", base::ToString(removed));
  }
  return done;
}

Status FlexMountPoints::Unmount(const std::string& folder, const DriverVersionId& recorded_version,
                                const Call& unmount) {
  ASSIGN_OR_RETURN(const bool mounted, IsMounted(folder));
  bool there = mounted;
  if (!mounted) {
    ASSIGN_OR_RETURN(there, Exists(folder));
  }
  if (there) {
    const auto version = versions_.ChooseForTearDown(kind_, folder, recorded_version);
    // If nothing is mounted and no version is held, no version was called.
    if (!version.ok() && mounted) return version.status();
    if (version.ok()) RETURN_IF_ERROR(unmount(*version));
  }
  return RemoveMountPoint(folder);
}

Status FlexMountPoints::UnmountPlainly(const std::string& folder) {
  for (int i = 0; i < kMaxStacked; ++i) {
    ASSIGN_OR_RETURN(const bool mounted, IsMounted(folder));
    if (!mounted) break;
    RETURN_IF_ERROR(host_.mounter().Unmount(folder));
  }
  return OkStatus();
}

Status FlexMountPoints::RemoveMountPoint(const std::string& folder) {
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  if (const platform::MountEntry* entry = platform::FindMount(table, folder)) {
    return Error(StatusCode::kFailedPrecondition, "{} from {} is still mounted at {}",
                 entry->fs_type, Quote(entry->source), Quote(folder));
  }
  RETURN_IF_ERROR(RemoveEmptyFolder(folder));
  versions_.ReleaseHolds(folder);
  MutexLock lock(mutex_);
  distrusted_.erase(folder);
  return OkStatus();
}

}  // namespace berth::volume
