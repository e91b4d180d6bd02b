// The part of Node for inline (ephemeral) volumes, which are made and deleted with their pod
// (node.h).
#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "csidriver/node.h"
#include "csidriver/pods_folder.h"

namespace berth::csidriver {

using base::Error;
using base::StatusCode;

base::StatusOr<std::string> Node::FindPoolId(const std::string& volume_id) const {
  if (IsInlineHandle(volume_id)) {
    const auto volume = pool_.FindVolume(volume_id);
    if (volume.has_value() && !volume->inline_target.empty()) return volume->id;
  }
  RETURN_IF_ERROR(CheckVolumeId(volume_id));
  return volume_id;
}

base::Status Node::CheckNothingAt(const platform::TargetPath& target) const {
  ASSIGN_OR_RETURN(const auto table, mounter_.List());
  const platform::MountEntry* mount = platform::FindMount(table, target.text());
  if (mount == nullptr) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition, "target {} is a mount point of {} already", target,
               base::Quote(mount->source));
}

base::StatusOr<csi::v1::NodePublishVolumeResponse> Node::PublishInline(
    const csi::v1::NodePublishVolumeRequest& request) {
  ASSIGN_OR_RETURN(std::string path, CheckPath("target_path", request.target_path()));
  ASSIGN_OR_RETURN(const Capability capability,
                   ParseCapability(request.volume_capability(), offer_));
  ASSIGN_OR_RETURN(block::NewVolume wanted, ParseInlineVolume(request, capability, offer_));
  ASSIGN_OR_RETURN(path, platform::ResolveMountPoint(path));
  wanted.inline_target = path;
  wanted.pods_identity = IdentifyPodsFolder(platform::TargetPath(path));
  // If the volume existed before, this call must not undo what an earlier call did.
  const bool was_there = pool_.FindVolume(wanted.name).has_value();
  if (!was_there) RETURN_IF_ERROR(CheckNothingAt(platform::TargetPath(path)));
  ASSIGN_OR_RETURN(const block::Record volume, pool_.CreateVolume(wanted));
  const base::Status mounted =
      MountInline(volume, capability, request.readonly() || capability.read_only());
  if (mounted.ok()) {
    LOG_INFO("inline volume {} is published at {}", base::Quote(volume.name), base::Quote(path));
    return csi::v1::NodePublishVolumeResponse();
  }
  if (!was_there && mounted.code() != StatusCode::kDeadlineExceeded) {
    if (const base::Status removed = RemoveInline(volume); !removed.ok()) {
      LOG_WARNING("inline volume {} could not be published, and not be removed either: {}",
                  base::Quote(volume.name), base::ToString(removed));
    }
  }
  return base::Annotate(mounted, fmt::format("publish inline volume {} at {}",
                                             base::Quote(volume.name), base::Quote(path)));
}

base::Status Node::MountInline(const block::Record& volume, const Capability& capability,
                               bool read_only) {
  const std::string& path = volume.inline_target;
  ASSIGN_OR_RETURN(const auto hold, pool_.LockVolume(volume.id));
  RETURN_IF_ERROR(pool_.CheckImage(volume));
  RETURN_IF_ERROR(CheckUse(volume, capability));
  ASSIGN_OR_RETURN(const Presence presence, FindPresence(volume.id));
  // The record treats the target as the staging path.
  const NodeRecord record{.volume_id = volume.id,
                          .staging_path = platform::StagingPath(path),
                          .capability = capability.Digest() + (read_only ? " read-only" : "")};
  switch (presence.FindAt(path)) {
    case Found::kForeign:
      return Error(StatusCode::kFailedPrecondition,
                   "the target is a mount point of {} already, which is not this volume",
                   base::Quote(presence.MountAt(path)->source));
    case Found::kOurs:
      if (!presence.recorded().has_value()) return records_.Put(record);
      if (presence.recorded()->capability == record.capability) return base::OkStatus();
      return Error(StatusCode::kAlreadyExists,
                   "it is published there with another volume capability");
    case Found::kNothing:
      break;
  }
  RETURN_IF_ERROR(records_.Put(record));
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.inline.target.before">());
  RETURN_IF_ERROR(MakeTarget(platform::TargetPath(path), block::AccessType::kMount));
  Capability mounted = capability;
  if (read_only) mounted.mount_flags.push_back("ro");
  ASSIGN_OR_RETURN(const platform::LoopDevice device, MapAndPrepare(volume));
  return MountFileSystem(volume, device, mounted.mount_flags, path);
}

// Unmounts and deletes an inline volume, also after a crash left it half-made.
base::Status Node::RemoveInline(const block::Record& volume) {
  {
    ASSIGN_OR_RETURN(const auto hold, pool_.LockVolume(volume.id));
    RETURN_IF_ERROR(UnmountInline(volume));
  }
  return DeleteInline(volume);
}

base::Status Node::UnmountInline(const block::Record& volume) {
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.inline.unmount.before">());
  const platform::TargetPath target(volume.inline_target);
  RETURN_IF_ERROR(UnmountAll(volume.id, target));
  RETURN_IF_ERROR(pool_.Unmap(volume.id, kUnmapPatience));
  RETURN_IF_ERROR(records_.Remove(volume.id));
  return RemoveTarget(target);
}

base::Status Node::DeleteInline(const block::Record& volume) {
  RETURN_IF_ERROR(base::FaultPoint<"csidriver.inline.delete.before">());
  return pool_.DeleteVolume(volume.id);
}

base::StatusOr<csi::v1::NodeUnpublishVolumeResponse> Node::UnpublishInline(
    const csi::v1::NodeUnpublishVolumeRequest& request) {
  ASSIGN_OR_RETURN(std::string path, CheckPath("target_path", request.target_path()));
  if (const auto resolved = platform::ResolveMountPoint(path); resolved.ok()) path = *resolved;
  const std::optional<block::Record> volume = pool_.FindVolume(request.volume_id());
  if (volume.has_value() && volume->inline_target == path) {
    RETURN_IF_ERROR_WITH(RemoveInline(*volume),
                         fmt::format("unpublish inline volume {}", base::Quote(volume->name)));
    LOG_INFO("inline volume {} is unpublished from {}", base::Quote(volume->name),
             base::Quote(path));
    return csi::v1::NodeUnpublishVolumeResponse();
  }
  // The volume is gone or never existed, but an empty target may remain.
  ASSIGN_OR_RETURN(const auto table, mounter_.List());
  if (platform::FindMount(table, path) == nullptr) {
    RETURN_IF_ERROR(RemoveTarget(platform::TargetPath(path)));
  }
  return csi::v1::NodeUnpublishVolumeResponse();
}

bool Node::RemoveOrphans() {
  bool seen_all = true;
  for (const block::Record& volume : pool_.List(block::Kind::kVolume)) {
    if (volume.inline_target.empty()) continue;
    const auto find = [&] {
      return FindPodFolder(platform::TargetPath(volume.inline_target), volume.pods_identity);
    };
    const PodFolder found = find();
    seen_all &= found != PodFolder::kUnknown || volume.pods_identity.empty();
    if (found != PodFolder::kGone) continue;
    const base::Status removed = [&]() -> base::Status {
      {
        ASSIGN_OR_RETURN(const auto hold, pool_.LockVolume(volume.id));
        // While the volume was not locked, the pod may have come again.
        if (find() != PodFolder::kGone) return base::OkStatus();
        RETURN_IF_ERROR(UnmountInline(volume));
      }
      LOG_INFO("inline volume {} is removed, because its pod's folder is gone",
               base::Quote(volume.name));
      return DeleteInline(volume);
    }();
    if (!removed.ok()) {
      LOG_WARNING("inline volume {} of a pod whose folder is gone is not removed: {}",
                  base::Quote(volume.name), base::ToString(removed));
    }
  }
  return seen_all;
}

}  // namespace berth::csidriver
