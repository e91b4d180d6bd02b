#include "volume/csi/block_volumes.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/files/durable_file.h"
#include "volume/csi/node_inputs.h"
#include "volume/csi/release.h"
#include "volume/csi/vol_data.h"
#include "volume/found_volumes.h"
#include "volume/volume_files.h"

namespace berth::volume::csi_volume {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::StatusCode;

bool Exists(const std::string& path) {
  return faccessat(AT_FDCWD, path.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace

Status BlockVolumes::Stage(const Volume& volume, const api::Labels& publish_context) {
  ASSIGN_OR_RETURN(const auto client, drivers_.Get(volume.driver));
  ASSIGN_OR_RETURN(const NodeCapabilities capabilities, client->GetCapabilities());
  const std::string data = host_.paths().CsiBlockData(volume.name);
  const platform::StagingPath staging = host_.paths().CsiBlockStaging(volume.name);
  ASSIGN_OR_RETURN(const Finding before,
                   InspectFolder(host_.mounter(), data, staging, volume.driver,
                                 api::VolumeHandle(volume.handle)));
  ASSIGN_OR_RETURN(const csi::v1::NodeStageVolumeRequest request,
                   MakeStageRequest(host_, volume, staging, publish_context,
                                    MakeCapability(volume, capabilities, std::nullopt)));

  // The record is written also for a driver without stages, because publish and tear-down must know
  // which volume the device belongs to.
  RETURN_IF_ERROR(WriteVolData(data, MakePodVolData(volume, api::NodeName(host_.node_name()))));
  if (!before.mounted) RETURN_IF_ERROR(platform::MakeFolders(staging.text(), 0750));
  if (!capabilities.stage_unstage) return OkStatus();
  const Status staged = client->rpc().NodeStageVolume(request, kCsiTimeout).status();
  // A later call that did nothing must not undo what an earlier call may have done.
  if (rpc::IsFinal(staged) && !before.driver_may_know()) {
    const Status removed = RemoveStaged(api::VolumeName(volume.name));
    if (!removed.ok()) LOG_WARNING("clean up after a failed call: {}", base::ToString(removed));
  }
  return staged;
}

Status BlockVolumes::RemoveStaged(const api::VolumeName& pv) {
  const platform::StagingPath staging = host_.paths().CsiBlockStaging(pv.text());
  RETURN_IF_ERROR(CheckUnmounted(host_.mounter(), staging.text(), "the last driver call"));
  RETURN_IF_ERROR(RemoveEmptyFolder(staging.text()));
  RETURN_IF_ERROR(RemoveVolData(host_.paths().CsiBlockData(pv.text())));
  RemoveFolderIfEmpty(ParentOf(host_.paths().CsiBlockData(pv.text())));
  return OkStatus();
}

Status BlockVolumes::Unstage(const Record& record, const api::VolumeName& pv) {
  const platform::StagingPath staging = host_.paths().CsiBlockStaging(pv.text());
  ASSIGN_OR_RETURN(const Finding before,
                   InspectFolder(host_.mounter(), host_.paths().CsiBlockData(pv.text()), staging,
                                 record.driver, api::VolumeHandle(record.handle)));
  // The record is written before the driver is called and removed after the driver has released the
  // volume: without a record the driver does not know the volume. If the record is damaged, the
  // node agent's own record tells which volume it is.
  if (before.driver_may_know()) {
    RETURN_IF_ERROR(UnstageByDriver(drivers_, record, staging));
  }
  return RemoveStaged(pv);
}

StatusOr<Published> BlockVolumes::Publish(const api::Pod& pod, const Volume& volume,
                                          const api::Labels& publish_context) {
  ASSIGN_OR_RETURN(const auto client, drivers_.Get(volume.driver));
  ASSIGN_OR_RETURN(const NodeCapabilities capabilities, client->GetCapabilities());
  const api::PodUid pod_uid(pod.uid());
  const api::VolumeName name(volume.name);
  const platform::TargetPath target = host_.paths().CsiBlockPublish(name, pod_uid);
  ASSIGN_OR_RETURN(const Finding before,
                   InspectFolder(host_.mounter(), host_.paths().CsiBlockData(volume.name), target,
                                 volume.driver, api::VolumeHandle(volume.handle)));
  if (!before.recorded) {
    return Error(StatusCode::kFailedPrecondition, "block volume {} is not staged on this node",
                 Quote(volume.handle));
  }
  csi::v1::NodePublishVolumeRequest request;
  request.set_volume_id(volume.handle);
  request.set_target_path(target.text());
  // As in the kubelet, the path is set for a driver without stages, too.
  request.set_staging_target_path(host_.paths().CsiBlockStaging(volume.name).text());
  request.set_readonly(volume.read_only);
  AssignLabels(publish_context, *request.mutable_publish_context());
  AssignLabels(volume.attributes, *request.mutable_volume_context());
  *request.mutable_volume_capability() = MakeCapability(volume, capabilities, std::nullopt);
  ASSIGN_OR_RETURN(*request.mutable_secrets(), ReadSecret(host_, volume.publish_secret));

  RETURN_IF_ERROR(platform::MakeFolders(ParentOf(target.text()), 0750));
  const Status published = client->rpc().NodePublishVolume(request, kCsiTimeout).status();
  if (rpc::IsFinal(published)) RemoveFolderIfEmpty(ParentOf(target.text()));
  RETURN_IF_ERROR(published);
  const std::string link = host_.paths().PodDeviceLink(pod_uid, kPluginName, name);
  if (const Status right = CheckPublished(volume, target); !right.ok()) {
    // The link is made only after the device was checked, because the pod may use the device then.
    if (!Exists(link)) {
      const auto undone = client->rpc().NodeUnpublishVolume(
          MakeUnpublishRequest(api::VolumeHandle(volume.handle), target), kCsiTimeout);
      // Tear-down does this again.
      if (!undone.ok()) {
        LOG_WARNING("undo a refused call: {}", base::ToString(undone.status()));
      }
    }
    return right;
  }
  RETURN_IF_ERROR(PointLink(link, target.text()));
  // Read-only limits what the container may do with the device, as in the kubelet. Few drivers make
  // the device itself read-only (BLKROSET), because other pods may write to it.
  return Published{.path = target.text(), .block = true, .read_only = volume.read_only};
}

Status BlockVolumes::CheckPublished(const Volume& volume, const platform::TargetPath& target) {
  ASSIGN_OR_RETURN(const auto found, host_.LookAtDevices({target.text()}));
  const platform::DeviceFile& device = found.front();
  if (!device.block) {
    return Error(
        StatusCode::kFailedPrecondition,
        "NodePublishVolume succeeded, but {} at {}: data written there would not reach the "
        "volume",
        device.present ? "there is no block device" : "there is nothing", target);
  }
  if (!IsForOneNode(volume)) return OkStatus();
  ASSIGN_OR_RETURN(const std::string other, FindOtherVolume(device.number, volume));
  if (other.empty()) return OkStatus();
  return Error(StatusCode::kFailedPrecondition,
               "NodePublishVolume of volume {} succeeded, but the device at {} is volume {}",
               Quote(volume.handle), target, Quote(other));
}

StatusOr<std::string> BlockVolumes::FindOtherVolume(dev_t device, const Volume& volume) {
  std::vector<std::string> paths;
  std::vector<std::string> handles;
  ASSIGN_OR_RETURN(const auto names, ListNames(host_.paths().CsiBlockPublishedVolumes()));
  for (const std::string& pv : names) {
    if (pv == volume.name) continue;
    const auto data = ReadVolData(host_.paths().CsiBlockData(pv));
    if (!data.ok() || !data->has_value()) continue;
    const std::string handle = base::json::String(**data, {"volumeHandle"});
    // Two PersistentVolumes may name one volume.
    if (handle == volume.handle && base::json::String(**data, {"driverName"}) == volume.driver) {
      continue;
    }
    ASSIGN_OR_RETURN(const auto uids, ListNames(host_.paths().CsiBlockPublished(pv)));
    for (const std::string& uid : uids) {
      paths.push_back(host_.paths().CsiBlockPublish(api::VolumeName(pv), api::PodUid(uid)).text());
      handles.push_back(handle);
    }
  }
  if (paths.empty()) return std::string();
  ASSIGN_OR_RETURN(const auto found, host_.LookAtDevices(paths));
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i].block && found[i].number == device) return handles[i];
  }
  return std::string();
}

Status BlockVolumes::Unpublish(const Record& record, const api::PodUid& pod,
                               const api::VolumeName& pv) {
  const platform::TargetPath target = host_.paths().CsiBlockPublish(pv, pod);
  ASSIGN_OR_RETURN(const Finding before,
                   InspectFolder(host_.mounter(), host_.paths().CsiBlockData(pv.text()), target,
                                 record.driver, api::VolumeHandle(record.handle)));
  if (before.driver_may_know()) {
    RETURN_IF_ERROR(UnpublishByDriver(drivers_, record, target));
    RETURN_IF_ERROR(CheckUnmounted(host_.mounter(), target.text(), "NodeUnpublishVolume"));
  }
  return RemovePublished(pod, pv);
}

Status BlockVolumes::ForgetDevice(const Record& record, const api::VolumeName& pv) {
  if (NamesAnother(host_.paths().CsiBlockData(pv.text()), record)) return OkStatus();
  return RemoveStaged(pv);
}

Status BlockVolumes::ForgetPod(const Record& record, const api::PodUid& pod,
                               const api::VolumeName& pv) {
  if (NamesAnother(host_.paths().CsiBlockData(pv.text()), record)) return OkStatus();
  RETURN_IF_ERROR(
      CheckUnmounted(host_.mounter(), host_.paths().CsiBlockPublish(pv, pod).text(), "the reboot"));
  return RemovePublished(pod, pv);
}

Status BlockVolumes::RemovePublished(const api::PodUid& pod, const api::VolumeName& pv) {
  const platform::TargetPath target = host_.paths().CsiBlockPublish(pv, pod);
  const std::string link = host_.paths().PodDeviceLink(pod, kPluginName, pv);
  RETURN_IF_ERROR(RemoveFile(target.text()));
  RemoveFolderIfEmpty(ParentOf(target.text()));
  RETURN_IF_ERROR(RemoveFile(link));
  RemoveFolderIfEmpty(ParentOf(link));
  RemoveFolderIfEmpty(ParentOf(ParentOf(link)));
  return OkStatus();
}

}  // namespace berth::volume::csi_volume
