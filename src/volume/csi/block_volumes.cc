#include "volume/csi/block_volumes.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/log.h"
#include "platform/durable_file.h"
#include "platform/errno.h"
#include "volume/csi/node_inputs.h"
#include "volume/csi/vol_data.h"

namespace berth::volume::csi_volume {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::StatusCode;

std::string ParentOf(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

// Makes or replaces the symlink at once.
Status PointLink(const std::string& link, const std::string& to) {
  RETURN_IF_ERROR(platform::MakeFolders(ParentOf(link), 0750));
  const std::string temp = link + ".new";
  unlink(temp.c_str());
  if (symlink(to.c_str(), temp.c_str()) != 0 || rename(temp.c_str(), link.c_str()) != 0) {
    const int error = errno;
    return platform::ErrnoError(error, fmt::format("link {} to {}", Quote(link), Quote(to)));
  }
  return OkStatus();
}

Status RemoveFile(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return OkStatus();
  const int error = errno;
  return platform::ErrnoError(error, fmt::format("remove {}", Quote(path)));
}

// A folder that other pods or volumes may still use.
void RemoveFolderIfEmpty(const std::string& path) { rmdir(path.c_str()); }

}  // namespace

Status BlockVolumes::Stage(const Volume& volume, const api::Labels& publish_context) {
  ASSIGN_OR_RETURN(const auto client, drivers_.Get(volume.driver));
  ASSIGN_OR_RETURN(const NodeCapabilities capabilities, client->Capabilities());
  const std::string data = host_.paths().CsiBlockData(volume.name);
  const std::string target = host_.paths().CsiBlockStaging(volume.name);
  ASSIGN_OR_RETURN(const Finding before,
                   Inspect(host_.mounter(), data, target, volume.driver, volume.handle));
  csi::v1::NodeStageVolumeRequest request;
  request.set_volume_id(volume.handle);
  request.set_staging_target_path(target);
  Assign(publish_context, *request.mutable_publish_context());
  Assign(volume.attributes, *request.mutable_volume_context());
  *request.mutable_volume_capability() = Capability(volume, capabilities, std::nullopt);
  ASSIGN_OR_RETURN(*request.mutable_secrets(), ReadSecret(host_, volume.stage_secret));

  // Also for a driver without stages: publish and tear-down need to know whose the device is.
  RETURN_IF_ERROR(WriteVolData(data, PodVolData(volume, host_.node_name())));
  if (!before.mounted) RETURN_IF_ERROR(platform::MakeFolders(target, 0750));
  if (!capabilities.stage_unstage) return OkStatus();
  const Status staged = client->rpc().NodeStageVolume(request, kCsiTimeout).status();
  // What an earlier call may have done is not undone by a later one that did nothing.
  if (rpc::IsFinal(staged) && !before.recorded) {
    const Status removed = Forget(volume.name);
    if (!removed.ok()) LOG_WARNING("clean up after a failed call: {}", base::ToString(removed));
  }
  return staged;
}

Status BlockVolumes::Forget(const std::string& pv) {
  const std::string target = host_.paths().CsiBlockStaging(pv);
  RETURN_IF_ERROR(CheckUnmounted(host_.mounter(), target, "the last driver call"));
  RETURN_IF_ERROR(RemoveEmptyFolder(target));
  RETURN_IF_ERROR(RemoveVolData(host_.paths().CsiBlockData(pv)));
  RemoveFolderIfEmpty(ParentOf(host_.paths().CsiBlockData(pv)));
  return OkStatus();
}

Status BlockVolumes::Unstage(const Record& record, const std::string& pv) {
  const std::string target = host_.paths().CsiBlockStaging(pv);
  ASSIGN_OR_RETURN(const Finding before, Inspect(host_.mounter(), host_.paths().CsiBlockData(pv),
                                                 target, record.driver, record.handle));
  // The record is written before the driver is called and removed after it let go: without one the
  // driver knows nothing of the volume.
  if (before.recorded) {
    ASSIGN_OR_RETURN(const auto client, drivers_.Get(record.driver));
    ASSIGN_OR_RETURN(const NodeCapabilities capabilities, client->Capabilities());
    if (capabilities.stage_unstage) {
      csi::v1::NodeUnstageVolumeRequest request;
      request.set_volume_id(record.handle);
      request.set_staging_target_path(target);
      RETURN_IF_ERROR(client->rpc().NodeUnstageVolume(request, kCsiTimeout));
    }
  }
  return Forget(pv);
}

StatusOr<Published> BlockVolumes::Publish(const api::Pod& pod, const Volume& volume,
                                          const api::Labels& publish_context) {
  ASSIGN_OR_RETURN(const auto client, drivers_.Get(volume.driver));
  ASSIGN_OR_RETURN(const NodeCapabilities capabilities, client->Capabilities());
  const std::string target = host_.paths().CsiBlockPublish(volume.name, pod.uid());
  ASSIGN_OR_RETURN(const Finding before,
                   Inspect(host_.mounter(), host_.paths().CsiBlockData(volume.name), target,
                           volume.driver, volume.handle));
  if (!before.recorded) {
    return Error(StatusCode::kFailedPrecondition, "block volume {} is not staged on this node",
                 Quote(volume.handle));
  }
  csi::v1::NodePublishVolumeRequest request;
  request.set_volume_id(volume.handle);
  request.set_target_path(target);
  // As the kubelet does, also for a driver without stages.
  request.set_staging_target_path(host_.paths().CsiBlockStaging(volume.name));
  request.set_readonly(volume.read_only);
  Assign(publish_context, *request.mutable_publish_context());
  Assign(volume.attributes, *request.mutable_volume_context());
  *request.mutable_volume_capability() = Capability(volume, capabilities, std::nullopt);
  ASSIGN_OR_RETURN(*request.mutable_secrets(), ReadSecret(host_, volume.publish_secret));

  RETURN_IF_ERROR(platform::MakeFolders(ParentOf(target), 0750));
  const Status published = client->rpc().NodePublishVolume(request, kCsiTimeout).status();
  if (rpc::IsFinal(published)) RemoveFolderIfEmpty(ParentOf(target));
  RETURN_IF_ERROR(published);
  RETURN_IF_ERROR(
      PointLink(host_.paths().PodDeviceLink(pod.uid(), kPluginName, volume.name), target));
  return Published{.path = target, .block = true};
}

Status BlockVolumes::Unpublish(const Record& record, const std::string& pod_uid,
                               const std::string& pv) {
  const std::string target = host_.paths().CsiBlockPublish(pv, pod_uid);
  const std::string link = host_.paths().PodDeviceLink(pod_uid, kPluginName, pv);
  ASSIGN_OR_RETURN(const Finding before, Inspect(host_.mounter(), host_.paths().CsiBlockData(pv),
                                                 target, record.driver, record.handle));
  if (before.recorded) {
    ASSIGN_OR_RETURN(const auto client, drivers_.Get(record.driver));
    csi::v1::NodeUnpublishVolumeRequest request;
    request.set_volume_id(record.handle);
    request.set_target_path(target);
    RETURN_IF_ERROR(client->rpc().NodeUnpublishVolume(request, kCsiTimeout));
    RETURN_IF_ERROR(CheckUnmounted(host_.mounter(), target, "NodeUnpublishVolume"));
  }
  RETURN_IF_ERROR(RemoveFile(target));
  RemoveFolderIfEmpty(ParentOf(target));
  RETURN_IF_ERROR(RemoveFile(link));
  RemoveFolderIfEmpty(ParentOf(link));
  RemoveFolderIfEmpty(ParentOf(ParentOf(link)));
  return OkStatus();
}

}  // namespace berth::volume::csi_volume
