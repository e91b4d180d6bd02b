#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "block/device.h"
#include "csidriver/node.h"
#include "platform/errno.h"

namespace berth::csidriver {
namespace {

using base::Error;
using base::StatusCode;

// Whether the volume may be published at one more target, beside `others`.
base::Status CheckOthers(const block::Record& volume, AccessMode::Mode mode,
                         const PublishedTarget& wanted,
                         const std::vector<PublishedTarget>& others) {
  if (others.empty()) return base::OkStatus();
  RETURN_IF_ERROR(CheckOneKernel(volume, wanted, others));
  RETURN_IF_ERROR(CheckSecondPublish(mode, /*same_target=*/false, /*same_arguments=*/true));
  if (others.size() >= NodeRecords::kMaxTargets) {
    return Error(StatusCode::kResourceExhausted, "volume {} is published at {} targets already",
                 base::Quote(volume.id), others.size());
  }
  for (const PublishedTarget& other : others) {
    if (volume.access == block::AccessType::kBlock && other.read_only != wanted.read_only) {
      return Error(StatusCode::kFailedPrecondition,
                   "raw block volume {} is published {} at {}, and a device is either read-only or "
                   "writable",
                   base::Quote(volume.id), other.read_only ? "read-only" : "writable", other.path);
    }
  }
  return base::OkStatus();
}

void ForgetTarget(NodeRecord& record, const platform::TargetPath& path) {
  std::erase_if(record.targets, [&](const PublishedTarget& target) { return target.path == path; });
}

}  // namespace

base::Status MakeTarget(const platform::TargetPath& target, block::AccessType access) {
  const std::string& path = target.text();
  if (access == block::AccessType::kMount) {
    if (mkdir(path.c_str(), 0750) == 0) return base::OkStatus();
  } else {
    const base::UniqueFd fd(
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0660));
    if (fd.valid()) return base::OkStatus();
  }
  if (errno != EEXIST) return platform::ErrnoError(errno, "make target " + base::Quote(path));
  // The caller made sure that nothing is mounted there, so lstat cannot hang.
  struct stat st;
  if (lstat(path.c_str(), &st) != 0)
    return platform::ErrnoError(errno, "stat " + base::Quote(path));
  const bool fits = access == block::AccessType::kMount ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode);
  if (fits) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition, "target {} exists and is not a {}",
               base::Quote(path), access == block::AccessType::kMount ? "folder" : "plain file");
}

base::Status RemoveTarget(const platform::TargetPath& target) {
  const std::string& path = target.text();
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return base::OkStatus();
    return platform::ErrnoError(errno, "stat " + base::Quote(path));
  }
  if (S_ISDIR(st.st_mode)) {
    if (rmdir(path.c_str()) == 0 || errno == ENOENT) return base::OkStatus();
    return Error(StatusCode::kFailedPrecondition, "target folder {} is not removed: {}",
                 base::Quote(path), base::Message(platform::ErrnoError(errno, "rmdir")));
  }
  if (!S_ISREG(st.st_mode) || st.st_size != 0) {
    return Error(StatusCode::kFailedPrecondition,
                 "target {} is not an empty file and is not removed", base::Quote(path));
  }
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return base::OkStatus();
  return platform::ErrnoError(errno, "remove target " + base::Quote(path));
}

base::StatusOr<csi::v1::NodePublishVolumeResponse> Node::NodePublishVolume(
    const csi::v1::NodePublishVolumeRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  if (IsInline(request)) return PublishInline(request);
  ASSIGN_OR_RETURN(std::string path, CheckPath("target_path", request.target_path()));
  ASSIGN_OR_RETURN(const Capability capability,
                   ParseCapability(request.volume_capability(), offer_));
  RETURN_IF_ERROR(CheckVolumeId(request.volume_id()));
  if (request.staging_target_path().empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "'staging_target_path' is missing: volumes of this driver are staged first");
  }
  ASSIGN_OR_RETURN(std::string staging,
                   CheckPath("staging_target_path", request.staging_target_path()));
  ASSIGN_OR_RETURN(const auto hold, pool_.LockVolume(request.volume_id()));
  ASSIGN_OR_RETURN(const block::Record volume,
                   pool_.Get(block::Kind::kVolume, request.volume_id()));
  RETURN_IF_ERROR(CheckUse(volume, capability));
  // If the image file was replaced meanwhile, a pod must not get the new file.
  RETURN_IF_ERROR(pool_.CheckImage(volume));
  ASSIGN_OR_RETURN(path, platform::ResolveMountPoint(path));
  if (const auto resolved = platform::ResolveMountPoint(staging); resolved.ok())
    staging = *resolved;
  const platform::TargetPath target(path);
  const platform::StagingPath staging_path(staging);
  ASSIGN_OR_RETURN(const Presence presence, FindPresence(volume.id));
  if (!IsStaged(volume, presence) || presence.recorded()->staging_path != staging_path) {
    return Error(StatusCode::kFailedPrecondition, "volume {} is not staged at {}",
                 base::Quote(volume.id), base::Quote(staging));
  }
  if (volume.access == block::AccessType::kMount) {
    RETURN_IF_ERROR(CheckStagingPath(presence, volume, staging_path));
  }
  const PublishedTarget wanted{.path = target,
                               .read_only = request.readonly() || capability.read_only(),
                               .capability = capability.Digest(),
                               .deferred = CanDefer(request, volume)};
  const PublishedTarget* known = presence.recorded()->FindTarget(target);
  if (presence.FindAt(path) != Found::kNothing) {
    RETURN_IF_ERROR(ConfirmPublished(volume, capability.mode, wanted, presence));
    return csi::v1::NodePublishVolumeResponse();
  }
  bool again = false;
  if (known != nullptr && known->deferred) {
    RETURN_IF_ERROR(CheckSecondPublish(capability.mode, /*same_target=*/true, *known == wanted));
    const std::vector<PublishedTarget> there = presence.FindTargets();
    again = presence.device().has_value() && std::ranges::find(there, wanted) != there.end();
  }
  // An existing deferred target is only confirmed and never undone, because a sandbox may use the
  // volume through it.
  const auto published = again ? DeferTarget(volume, capability, wanted, *presence.device())
                               : PublishAt(volume, capability, wanted, presence);
  RETURN_IF_ERROR_WITH(
      published, fmt::format("publish volume {} at {}", base::Quote(volume.id), base::Quote(path)));
  LOG_INFO("volume {} is published at {}{}", base::Quote(volume.id), base::Quote(path),
           wanted.deferred ? ": the container runtime mounts it" : "");
  return published;
}

base::StatusOr<csi::v1::NodePublishVolumeResponse> Node::PublishAt(const block::Record& volume,
                                                                   const Capability& capability,
                                                                   const PublishedTarget& wanted,
                                                                   const Presence& presence) {
  NodeRecord record = *presence.recorded();
  record.targets = presence.FindTargets(wanted.path);  // without targets that no longer exist
  RETURN_IF_ERROR(CheckOthers(volume, capability.mode, wanted, record.targets));
  ASSIGN_OR_RETURN(const platform::LoopDevice device,
                   GetDeviceFor(volume, wanted, record, presence));
  if (volume.access == block::AccessType::kMount) {
    record.use = wanted.deferred ? DeviceUse::kDeferred : DeviceUse::kMounted;
  }
  record.targets.push_back(wanted);
  RETURN_IF_ERROR(records_.Put(record));
  auto done = wanted.deferred ? DeferTarget(volume, capability, wanted, device)
                              : BindTarget(volume, capability, wanted, device, presence);
  if (done.ok()) return done;
  // After a time-out in the kernel the outcome is unknown, so nothing is undone: the repeated call
  // continues.
  if (done.status().code() != StatusCode::kDeadlineExceeded) {
    if (const base::Status undone = UndoPublish(std::move(record), wanted.path); !undone.ok()) {
      LOG_WARNING("a failed publish of volume {} could not be undone: {}", base::Quote(volume.id),
                  base::ToString(undone));
    }
  }
  return done;
}

// Called if something is mounted at the target. OK: an earlier call did the same publish; else the
// error says what differs.
base::Status Node::ConfirmPublished(const block::Record& volume, AccessMode::Mode mode,
                                    const PublishedTarget& wanted, const Presence& presence) {
  if (presence.FindAt(wanted.path.text()) == Found::kForeign) {
    return Error(StatusCode::kFailedPrecondition,
                 "target {} is a mount point of {} already, which is not volume {}", wanted.path,
                 base::Quote(presence.MountAt(wanted.path.text())->source), base::Quote(volume.id));
  }
  NodeRecord record = *presence.recorded();
  const PublishedTarget* known = record.FindTarget(wanted.path);
  if (known != nullptr && known->deferred) {
    return Error(StatusCode::kFailedPrecondition,
                 "target {} is deferred to a container runtime, and this host has the volume "
                 "mounted there: unmount it",
                 wanted.path);
  }
  // If there is no record of the mount, only the flag "ro" in the mount table can be compared.
  const bool same = known != nullptr
                        ? *known == wanted
                        : !wanted.deferred &&
                              presence.MountAt(wanted.path.text())->read_only() == wanted.read_only;
  RETURN_IF_ERROR(CheckSecondPublish(mode, /*same_target=*/true, same));
  if (known != nullptr) return base::OkStatus();
  record.targets.push_back(wanted);
  return records_.Put(record);
}

base::Status Node::UndoPublish(NodeRecord record, const platform::TargetPath& target) {
  RETURN_IF_ERROR(UnmountAll(record.volume_id, target));
  RETURN_IF_ERROR(RemoveTarget(target));
  ForgetTarget(record, target);
  const std::string volume_id = record.volume_id;
  RETURN_IF_ERROR(records_.PutWithFewerTargets(std::move(record)));
  return UnmountUnpublished(volume_id);
}

base::StatusOr<csi::v1::NodePublishVolumeResponse> Node::BindTarget(
    const block::Record& volume, const Capability& capability, const PublishedTarget& target,
    const platform::LoopDevice& device, const Presence& presence) {
  const platform::StagingPath& staging = presence.recorded()->staging_path;
  if (volume.access == block::AccessType::kMount &&
      presence.FindAt(staging.text()) == Found::kNothing) {
    RETURN_IF_ERROR(CheckStagingFolder(staging));
    RETURN_IF_ERROR(MountFileSystem(volume, device, capability.mount_flags, staging.text()));
  }
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.publish.target.before">());
  RETURN_IF_ERROR(MakeTarget(target.path, volume.access));
  platform::MountRequest mount{.target = target.path.text(), .options = {"bind"}};
  if (volume.access == block::AccessType::kBlock) {
    // The device itself is made read-only, because a read-only bind of a device node does not
    // prevent writes.
    RETURN_IF_ERROR(block::SetReadOnly(device, target.read_only));
    mount.source = device.path;
  } else {
    mount.source = staging.text();
  }
  if (target.read_only) mount.options.push_back("ro");
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.publish.mount.before">());
  RETURN_IF_ERROR(mounter_.Mount(mount));
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.publish.mount.after">());
  return csi::v1::NodePublishVolumeResponse();
}

base::StatusOr<csi::v1::NodeUnpublishVolumeResponse> Node::NodeUnpublishVolume(
    const csi::v1::NodeUnpublishVolumeRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  if (IsInlineHandle(request.volume_id())) return UnpublishInline(request);
  ASSIGN_OR_RETURN(std::string path, CheckPath("target_path", request.target_path()));
  RETURN_IF_ERROR(CheckVolumeId(request.volume_id()));
  const std::string& id = request.volume_id();
  ASSIGN_OR_RETURN(const auto hold, pool_.LockVolume(id));
  if (const auto resolved = platform::ResolveMountPoint(path); resolved.ok()) path = *resolved;
  const platform::TargetPath target(path);
  ASSIGN_OR_RETURN(const Presence presence, FindPresence(id));
  if (!presence.recorded().has_value() && !presence.device().has_value()) {
    // An unknown volume gives NOT_FOUND. A volume that is only not in use may have left an empty
    // target.
    RETURN_IF_ERROR(pool_.Get(block::Kind::kVolume, id));
  }
  const std::string context =
      fmt::format("unpublish volume {} from {}", base::Quote(id), base::Quote(path));
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.unpublish.unmount.before">());
  RETURN_IF_ERROR_WITH(UnmountAll(id, target), context);
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.unpublish.unmount.after">());
  RETURN_IF_ERROR_WITH(RemoveTarget(target), context);
  if (presence.recorded().has_value() && presence.recorded()->FindTarget(target) != nullptr) {
    NodeRecord record = *presence.recorded();
    ForgetTarget(record, target);
    RETURN_IF_ERROR(records_.PutWithFewerTargets(std::move(record)));
  }
  // The target is gone, so the request is done. If the mount at staging stays, it does no harm
  // before the next deferral or NodeUnstageVolume, and these calls then report the failure.
  if (const base::Status unmounted = UnmountUnpublished(id); !unmounted.ok()) {
    LOG_WARNING("{}: {}", context, base::ToString(unmounted));
  }
  LOG_INFO("volume {} is unpublished from {}", base::Quote(id), base::Quote(path));
  return csi::v1::NodeUnpublishVolumeResponse();
}

// Unmounts the file system at staging when no target on this host uses it any more.
base::Status Node::UnmountUnpublished(const std::string& volume_id) {
  ASSIGN_OR_RETURN(const Presence presence, FindPresence(volume_id));
  const std::optional<NodeRecord>& record = presence.recorded();
  if (!record.has_value() || record->access != block::AccessType::kMount ||
      presence.FindAt(record->staging_path.text()) == Found::kNothing) {
    return base::OkStatus();
  }
  const auto is_mounted = [](const PublishedTarget& target) { return !target.deferred; };
  if (std::ranges::any_of(presence.FindTargets(), is_mounted)) return base::OkStatus();
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.unpublish.staging.before">());
  RETURN_IF_ERROR_WITH(UnmountAll(volume_id, record->staging_path), "unmount its staging path");
  return base::FaultPoint<"csidriver.unpublish.staging.after">();
}

}  // namespace berth::csidriver
