#include "base/fault.h"
#include "base/log.h"
#include "block/prepare.h"
#include "csidriver/node.h"
#include "platform/mounts/safe_path.h"

namespace berth::csidriver {
namespace {

using base::Error;
using base::StatusCode;

// This driver never makes more mounts than this at one path.
constexpr int kMaxStacked = 16;

}  // namespace

base::Status CheckStagingPath(const Presence& presence, const block::Record& volume,
                              const platform::StagingPath& path) {
  if (presence.FindAt(path.text()) != Found::kForeign) return base::OkStatus();
  const platform::MountEntry& mount = *presence.MountAt(path.text());
  return Error(StatusCode::kFailedPrecondition,
               "another mount ({} from {}) stands at staging path {}, which is not volume {}",
               mount.fs_type, base::Quote(mount.source), path, base::Quote(volume.id));
}

bool Node::IsStaged(const block::Record& volume, const Presence& presence) {
  if (!presence.recorded().has_value()) return false;
  if (volume.access == block::AccessType::kBlock) return presence.device().has_value();
  return volume.content == block::Content::kFormatted;
}

base::Status CheckStagingFolder(const platform::StagingPath& path) {
  const auto folder = platform::OpenFolder(path.text());
  if (folder.ok()) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition, "staging path {} is not an existing folder: {}",
               path, base::Message(folder.status()));
}

base::Status CheckUse(const block::Record& volume, const Capability& capability) {
  if (volume.access != capability.access) {
    return Error(StatusCode::kFailedPrecondition,
                 "volume {} is a {} volume and cannot be used as {}", base::Quote(volume.id),
                 block::NameOf(volume.access), block::NameOf(capability.access));
  }
  if (!capability.fs_type.empty() && capability.fs_type != volume.fs_type) {
    return Error(StatusCode::kFailedPrecondition, "volume {} has {} and cannot be used as {}",
                 base::Quote(volume.id), volume.fs_type, capability.fs_type);
  }
  return base::OkStatus();
}

base::StatusOr<csi::v1::NodeStageVolumeResponse> Node::NodeStageVolume(
    const csi::v1::NodeStageVolumeRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  ASSIGN_OR_RETURN(std::string path,
                   CheckPath("staging_target_path", request.staging_target_path()));
  ASSIGN_OR_RETURN(const Capability capability,
                   ParseCapability(request.volume_capability(), offer_));
  RETURN_IF_ERROR(CheckVolumeId(request.volume_id()));
  ASSIGN_OR_RETURN(const auto hold, pool_.LockVolume(request.volume_id()));
  ASSIGN_OR_RETURN(const block::Record volume,
                   pool_.Get(block::Kind::kVolume, request.volume_id()));
  RETURN_IF_ERROR(CheckUse(volume, capability));
  if (const auto resolved = platform::ResolveMountPoint(path); resolved.ok()) path = *resolved;
  const platform::StagingPath staging(path);
  ASSIGN_OR_RETURN(const Presence presence, FindPresence(volume.id));
  const bool staged = IsStaged(volume, presence);
  const bool is_block = volume.access == block::AccessType::kBlock;
  if (staged) {
    if (presence.recorded()->staging_path != staging) {
      return Error(StatusCode::kFailedPrecondition, "volume {} is staged at {}",
                   base::Quote(volume.id), presence.recorded()->staging_path);
    }
    if (presence.recorded()->capability != capability.Digest()) {
      return Error(StatusCode::kAlreadyExists,
                   "volume {} is staged at {} with another volume capability",
                   base::Quote(volume.id), base::Quote(path));
    }
    if (is_block) return csi::v1::NodeStageVolumeResponse();
  }
  RETURN_IF_ERROR(CheckStagingPath(presence, volume, staging));
  // A volume that was published since its staging is prepared. Any other volume is prepared again,
  // because an interrupted call may not have finished that. This is safe, because no pod uses the
  // volume.
  if (staged && (presence.recorded()->use != DeviceUse::kNone || presence.IsUsed())) {
    return csi::v1::NodeStageVolumeResponse();
  }
  if (const std::string elsewhere = presence.FindMountPoint();
      !elsewhere.empty() && presence.FindAt(path) != Found::kOurs) {
    return Error(StatusCode::kFailedPrecondition, "volume {} is mounted at {}",
                 base::Quote(volume.id), base::Quote(elsewhere));
  }
  RETURN_IF_ERROR(CheckStagingFolder(staging));
  NodeRecord record{.volume_id = volume.id,
                    .staging_path = staging,
                    .capability = capability.Digest(),
                    .access = volume.access};
  if (presence.recorded().has_value()) {
    record.use = presence.recorded()->use;
    record.targets = presence.FindTargets();
  } else if (presence.device().has_value() && !is_block) {
    // The record was lost, so it is not known whether a container runtime got the device. Targets
    // that are still bound are found when a call names them.
    record.use = presence.FindAt(path) == Found::kOurs ? DeviceUse::kMounted : DeviceUse::kDeferred;
  }
  RETURN_IF_ERROR(records_.Put(record));
  if (presence.FindAt(path) == Found::kOurs) return csi::v1::NodeStageVolumeResponse();
  if (const base::Status prepared = PrepareStaged(volume, presence, std::move(record));
      !prepared.ok()) {
    // After a time-out in the kernel the outcome is unknown, so nothing is undone: the repeated
    // call continues.
    if (prepared.code() != StatusCode::kDeadlineExceeded) {
      if (const base::Status undone = UndoStage(volume.id); !undone.ok()) {
        LOG_WARNING("a failed staging of volume {} could not be undone: {}", base::Quote(volume.id),
                    base::ToString(undone));
      }
    }
    return base::Annotate(
        prepared, fmt::format("stage volume {} at {}", base::Quote(volume.id), base::Quote(path)));
  }
  LOG_INFO("volume {} is staged at {}", base::Quote(volume.id), base::Quote(path));
  return csi::v1::NodeStageVolumeResponse();
}

base::Status Node::PrepareStaged(const block::Record& volume, const Presence& presence,
                                 NodeRecord record) {
  if (volume.access == block::AccessType::kMount && presence.device().has_value()) {
    RETURN_IF_ERROR(DetachVolume(volume.id, record.use));
  }
  RETURN_IF_ERROR(MapAndPrepare(volume));
  if (record.use == DeviceUse::kNone) return base::OkStatus();
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.stage.prepared">());
  record.use = DeviceUse::kNone;
  return records_.Put(std::move(record));
}

base::StatusOr<platform::LoopDevice> Node::MapAndPrepare(const block::Record& volume) {
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.stage.map.before">());
  ASSIGN_OR_RETURN(const platform::LoopDevice device, pool_.Map(volume.id));
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.stage.map.after">());
  if (volume.access == block::AccessType::kBlock) return device;
  return block::PrepareVolume(pool_, exec_, volume.id, device);
}

base::Status Node::MountFileSystem(const block::Record& volume, const platform::LoopDevice& device,
                                   const std::vector<std::string>& flags, const std::string& path) {
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.stage.mount.before">());
  RETURN_IF_ERROR(mounter_.Mount({.source = device.path,
                                  .target = path,
                                  .fs_type = volume.fs_type,
                                  .options = flags,
                                  .one_device = true}));
  return base::FaultPoint<"csidriver.stage.mount.after">();
}

base::Status Node::DetachVolume(const std::string& volume_id, DeviceUse use) {
  const base::Status detached = pool_.Unmap(volume_id, kUnmapPatience);
  if (detached.code() != StatusCode::kFailedPrecondition || use != DeviceUse::kDeferred) {
    return detached;
  }
  return Error(StatusCode::kFailedPrecondition,
               "{}; its mount was deferred to a container runtime, whose sandbox has the device "
               "until it ends",
               base::Message(detached));
}

base::Status Node::UndoStage(const std::string& volume_id) {
  ASSIGN_OR_RETURN(const Presence presence, FindPresence(volume_id));
  if (!presence.FindMountPoint().empty()) return base::OkStatus();
  RETURN_IF_ERROR(pool_.Unmap(volume_id));
  return records_.Remove(volume_id);
}

template <typename Path>
base::Status Node::UnmountAll(const std::string& volume_id, const Path& path) {
  for (int i = 0; i < kMaxStacked; ++i) {
    ASSIGN_OR_RETURN(const Presence presence, FindPresence(volume_id));
    switch (presence.FindAt(path.text())) {
      case Found::kNothing:
        return base::OkStatus();
      case Found::kForeign:
        return Error(StatusCode::kFailedPrecondition,
                     "{} is a mount point of {}, which is not volume {}: it is left mounted", path,
                     base::Quote(presence.MountAt(path.text())->source), base::Quote(volume_id));
      case Found::kOurs:
        RETURN_IF_ERROR(mounter_.Unmount(path.text()));
        break;
    }
  }
  return Error(StatusCode::kInternal, "{} is still mounted after {} unmounts", path, kMaxStacked);
}

template base::Status Node::UnmountAll(const std::string&, const platform::StagingPath&);
template base::Status Node::UnmountAll(const std::string&, const platform::TargetPath&);

base::StatusOr<csi::v1::NodeUnstageVolumeResponse> Node::NodeUnstageVolume(
    const csi::v1::NodeUnstageVolumeRequest& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  ASSIGN_OR_RETURN(std::string path,
                   CheckPath("staging_target_path", request.staging_target_path()));
  RETURN_IF_ERROR(CheckVolumeId(request.volume_id()));
  const std::string& id = request.volume_id();
  ASSIGN_OR_RETURN(const auto hold, pool_.LockVolume(id));
  if (const auto resolved = platform::ResolveMountPoint(path); resolved.ok()) path = *resolved;
  const platform::StagingPath staging(path);
  ASSIGN_OR_RETURN(const Presence presence, FindPresence(id));
  if (!presence.recorded().has_value() && !presence.device().has_value()) {
    // Nothing is staged: OK if the volume exists, else NOT_FOUND.
    RETURN_IF_ERROR(pool_.Get(block::Kind::kVolume, id));
    return csi::v1::NodeUnstageVolumeResponse();
  }
  if (presence.recorded().has_value() && presence.recorded()->staging_path != staging &&
      presence.FindAt(path) != Found::kOurs) {
    return csi::v1::NodeUnstageVolumeResponse();  // the volume is staged at another path
  }
  if (const auto targets = presence.FindTargets(); !targets.empty()) {
    return Error(StatusCode::kFailedPrecondition, "volume {} is still published at {}",
                 base::Quote(id), targets[0].path);
  }
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.unstage.unmount.before">());
  RETURN_IF_ERROR_WITH(UnmountAll(id, staging), fmt::format("unstage volume {}", base::Quote(id)));
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.unstage.unmount.after">());
  const DeviceUse use = presence.recorded().has_value() ? presence.recorded()->use : DeviceUse{};
  RETURN_IF_ERROR_WITH(DetachVolume(id, use), fmt::format("unstage volume {}", base::Quote(id)));
  RETURN_IF_ERROR(records_.Remove(id));
  LOG_INFO("volume {} is unstaged", base::Quote(id));
  return csi::v1::NodeUnstageVolumeResponse();
}

}  // namespace berth::csidriver
