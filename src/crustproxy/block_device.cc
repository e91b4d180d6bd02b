#include "crustproxy/block_device.h"

#include "base/log.h"
#include "platform/devices/device_file.h"
#include "platform/file_systems/device_file_system.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/placeholder.h"
#include "volume/csi/driver_clients.h"
#include "volume/csi/release.h"
#include "volume/volume_files.h"

namespace berth::crustproxy {
namespace {

namespace csi_volume = volume::csi_volume;
using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using volume::kCsiTimeout;

// The kubelet's capability, for a block device in place of a file system.
csi::v1::VolumeCapability AsBlock(const csi::v1::VolumeCapability& capability) {
  csi::v1::VolumeCapability block = capability;
  block.mutable_block();  // replaces `mount`
  return block;
}

csi_volume::Record RecordOf(const VolumeRecord& record) {
  return {.handle = record.handle.text(), .block = true};
}

}  // namespace

Status BlockDevices::Stage(const VolumeRecord& record) {
  csi::v1::NodeStageVolumeRequest request = record.stage;
  const platform::StagingPath staging = paths_.CsiBlockStaging(record.name.text());
  request.set_staging_target_path(staging.text());
  *request.mutable_volume_capability() = AsBlock(record.stage.volume_capability());
  RETURN_IF_ERROR(platform::MakeFolders(staging.text(), 0750));
  RETURN_IF_ERROR(driver_.NodeStageVolume(request, kCsiTimeout));
  ASSIGN_OR_RETURN(const platform::AtTarget there,
                   platform::LookAtTarget(mounter_, staging.text()));
  if (there == platform::AtTarget::kNothing) return base::OkStatus();
  return Error(StatusCode::kUnimplemented,
               "NodeStageVolume of a block device mounted a file system at {}", staging);
}

StatusOr<std::string> BlockDevices::Publish(const VolumeRecord& record, const api::PodUid& pod,
                                            const csi::v1::NodePublishVolumeRequest& kubelets) {
  csi::v1::NodePublishVolumeRequest request = kubelets;
  const std::string target = paths_.CsiBlockPublish(record.name, pod).text();
  request.set_target_path(target);
  if (!kubelets.staging_target_path().empty()) {
    request.set_staging_target_path(paths_.CsiBlockStaging(record.name.text()).text());
  }
  *request.mutable_volume_capability() = AsBlock(kubelets.volume_capability());
  RETURN_IF_ERROR(platform::MakeFolders(volume::ParentOf(target), 0750));
  RETURN_IF_ERROR(driver_.NodePublishVolume(request, kCsiTimeout));
  ASSIGN_OR_RETURN(const auto found, platform::LookAtDevices({target}));
  if (found.front().block) return target;
  return Error(StatusCode::kUnimplemented,
               "NodePublishVolume of a block device succeeded, but there is none at {}",
               base::Quote(target));
}

Status BlockDevices::PrepareFileSystem(const std::string& device, const std::string& type) {
  return base::Annotate(platform::PrepareFileSystem(exec_, device, type),
                        fmt::format("make {} on the volume's device ready", type));
}

StatusOr<csi::v1::NodeExpandVolumeResponse> BlockDevices::Expand(
    const VolumeRecord& record, const api::PodUid& pod,
    const csi::v1::NodeExpandVolumeRequest& kubelets) {
  csi::v1::NodeExpandVolumeRequest request = kubelets;
  request.set_volume_path(paths_.CsiBlockPublish(record.name, pod).text());
  if (!kubelets.staging_target_path().empty()) {
    request.set_staging_target_path(paths_.CsiBlockStaging(record.name.text()).text());
  }
  if (kubelets.has_volume_capability()) {
    *request.mutable_volume_capability() = AsBlock(kubelets.volume_capability());
  }
  return driver_.NodeExpandVolume(request, kCsiTimeout);
}

Status BlockDevices::Unpublish(const VolumeRecord& record, const api::PodUid& pod) {
  const platform::TargetPath target = paths_.CsiBlockPublish(record.name, pod);
  RETURN_IF_ERROR(csi_volume::UnpublishByDriver(driver_, RecordOf(record), target));
  // A driver that does not know block devices may have made a folder there.
  if (!volume::RemoveEmptyFolder(target.text()).ok()) {
    RETURN_IF_ERROR(volume::RemoveFile(target.text()));
  }
  volume::RemoveFolderIfEmpty(volume::ParentOf(target.text()));
  return base::OkStatus();
}

Status BlockDevices::Unstage(const VolumeRecord& record) {
  const platform::StagingPath staging = paths_.CsiBlockStaging(record.name.text());
  RETURN_IF_ERROR(csi_volume::UnstageByDriver(driver_, RecordOf(record), staging));
  return volume::RemoveEmptyFolder(staging.text());
}

}  // namespace berth::crustproxy
