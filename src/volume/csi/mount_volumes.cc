#include "volume/csi/mount_volumes.h"

#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/mounted_device.h"
#include "volume/csi/deferred_mount.h"
#include "volume/csi/node_inputs.h"
#include "volume/csi/release.h"
#include "volume/csi/vol_data.h"
#include "volume/volume_files.h"

namespace berth::volume::csi_volume {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::StatusCode;

// FAILED_PRECONDITION: the host has the file system on the device mounted. OK for a share.
Status CheckDeviceNotMounted(Host& host, const std::vector<platform::MountEntry>& table,
                             const std::string& source) {
  if (!source.starts_with('/')) return OkStatus();
  ASSIGN_OR_RETURN(const auto devices, host.LookAtDevices({source}));
  if (!devices.front().block) return OkStatus();
  for (const platform::MountEntry& mount : table) {
    if (!platform::ShowsFileSystemOf(mount, source, devices.front().number)) continue;
    return Error(StatusCode::kFailedPrecondition,
                 "the driver leaves the mount of {} to the runtime handler, but the host has it "
                 "mounted at {}",
                 source, Quote(mount.mount_point));
  }
  return OkStatus();
}

// Logs the failure of a call that undoes a refused one; tear-down does it again.
template <typename Answer>
void Undo(const Answer& undone) {
  if (!undone.ok()) LOG_WARNING("undo a refused call: {}", base::ToString(undone.status()));
}

}  // namespace

platform::TargetPath MountVolumes::GetTarget(const api::PodUid& pod,
                                             const api::VolumeName& name) const {
  return platform::TargetPath(host_.paths().PodVolume(pod, kPluginName, name) + "/mount");
}

template <typename Path>
void MountVolumes::ForgetNew(const std::string& folder, const Path& path) {
  Status removed = CheckUnmounted(host_.mounter(), path.text(), "a call that failed");
  if (removed.ok()) removed = RemoveEmptyFolder(path.text());
  if (removed.ok()) removed = RemoveVolData(folder);
  // This failure is only logged, because the caller must get the failure of the driver's call.
  // Tear-down removes the folder again.
  if (!removed.ok()) LOG_WARNING("clean up after a failed call: {}", base::ToString(removed));
}

Status MountVolumes::Stage(const api::Pod& pod, const Volume& volume,
                           const api::Labels& publish_context) {
  ASSIGN_OR_RETURN(const auto client, drivers_.Get(volume.driver));
  ASSIGN_OR_RETURN(const NodeCapabilities capabilities, client->GetCapabilities());
  if (!capabilities.stage_unstage) return OkStatus();

  const std::string folder =
      host_.paths().CsiDevice(volume.driver, api::VolumeHandle(volume.handle));
  const platform::StagingPath staging =
      host_.paths().CsiGlobalMount(volume.driver, api::VolumeHandle(volume.handle));
  ASSIGN_OR_RETURN(const Finding before,
                   InspectFolder(host_.mounter(), folder, staging, volume.driver,
                                 api::VolumeHandle(volume.handle)));
  // The label is compared before the record is written, because an existing mount keeps its label.
  if (before.mounted) RETURN_IF_ERROR(CheckLabel(volume));
  ASSIGN_OR_RETURN(const csi::v1::NodeStageVolumeRequest request,
                   MakeStageRequest(host_, volume, staging, publish_context,
                                    MakeCapability(volume, capabilities, pod.fs_group())));

  RETURN_IF_ERROR(WriteVolData(folder, MakeDeviceVolData(volume)));
  if (!before.mounted) RETURN_IF_ERROR(platform::MakeFolders(staging.text(), 0750));
  const Status staged = client->rpc().NodeStageVolume(request, kCsiTimeout).status();
  // A later call that did nothing must not undo what an earlier call may have done.
  if (rpc::IsFinal(staged) && !before.driver_may_know()) ForgetNew(folder, staging);
  RETURN_IF_ERROR(staged);
  // A driver may have nothing to mount before it publishes.
  const Expected expected{.after = "NodeStageVolume",
                          .driver = volume.driver,
                          .handle = volume.handle,
                          .alone = IsForOneNode(volume)};
  const Status right = CheckMounted(host_.mounter(), host_.paths(), staging.text(), expected);
  if (!right.ok() && !before.mounted) {
    Undo(client->rpc().NodeUnstageVolume(
        MakeUnstageRequest(api::VolumeHandle(volume.handle), staging), kCsiTimeout));
  }
  return right;
}

Status MountVolumes::Unstage(const Record& record) {
  const std::string folder =
      host_.paths().CsiDevice(record.driver, api::VolumeHandle(record.handle));
  const platform::StagingPath staging =
      host_.paths().CsiGlobalMount(record.driver, api::VolumeHandle(record.handle));
  ASSIGN_OR_RETURN(const Finding before,
                   InspectFolder(host_.mounter(), folder, staging, record.driver,
                                 api::VolumeHandle(record.handle)));
  // The record is written before NodeStageVolume and removed after NodeUnstageVolume: without a
  // record the driver does not know the volume. If the record is damaged, the node agent's own
  // record tells which volume it is.
  if (before.driver_may_know()) {
    RETURN_IF_ERROR(UnstageByDriver(drivers_, record, staging));
    RETURN_IF_ERROR(CheckUnmounted(host_.mounter(), staging.text(), "NodeUnstageVolume"));
  }
  RETURN_IF_ERROR(RemoveEmptyFolder(staging.text()));
  return RemoveVolData(folder);
}

template <typename Path>
Status MountVolumes::ForgetOld(const std::string& folder, const Path& path, const Record& record) {
  if (NamesAnother(folder, record)) return OkStatus();
  RETURN_IF_ERROR(CheckUnmounted(host_.mounter(), path.text(), "the reboot"));
  RETURN_IF_ERROR(RemoveEmptyFolder(path.text()));
  return RemoveVolData(folder);
}

Status MountVolumes::ForgetDevice(const Record& record) {
  const std::string folder =
      host_.paths().CsiDevice(record.driver, api::VolumeHandle(record.handle));
  return ForgetOld(folder,
                   host_.paths().CsiGlobalMount(record.driver, api::VolumeHandle(record.handle)),
                   record);
}

Status MountVolumes::ForgetPod(const Record& record, const api::PodUid& pod,
                               const api::VolumeName& name) {
  tokens_.ForgetTokens(pod);
  return ForgetOld(host_.paths().PodVolume(pod, kPluginName, name), GetTarget(pod, name), record);
}

Status MountVolumes::CheckStaged(const Volume& volume) const {
  const std::string folder =
      host_.paths().CsiDevice(volume.driver, api::VolumeHandle(volume.handle));
  const platform::StagingPath staging =
      host_.paths().CsiGlobalMount(volume.driver, api::VolumeHandle(volume.handle));
  ASSIGN_OR_RETURN(const Finding staged,
                   InspectFolder(host_.mounter(), folder, staging, volume.driver,
                                 api::VolumeHandle(volume.handle)));
  if (!staged.recorded) {
    return Error(StatusCode::kFailedPrecondition, "volume {} is not staged at {}",
                 Quote(volume.handle), staging);
  }
  return CheckLabel(volume);
}

Status MountVolumes::CheckLabel(const Volume& volume) const {
  ASSIGN_OR_RETURN(const auto data, ReadVolData(host_.paths().CsiDevice(
                                        volume.driver, api::VolumeHandle(volume.handle))));
  const std::string context = data.has_value() ? SELinuxContextOf(*data) : "";
  if (context == volume.selinux_context) return OkStatus();
  return Error(StatusCode::kFailedPrecondition,
               "conflicting SELinux labels of volume '{}': it is mounted on this node with {}, and "
               "this pod asks for {}; wait for the other pods' end, or let both ask for the same",
               volume.name, context.empty() ? "none" : Quote(context),
               volume.selinux_context.empty() ? "none" : Quote(volume.selinux_context));
}

Status MountVolumes::CheckLifecycle(const Volume& volume, const api::CsiDriver& driver) const {
  const std::string_view mode = volume.ephemeral ? "Ephemeral" : "Persistent";
  if (driver.supports_lifecycle(mode)) return OkStatus();
  return Error(
      StatusCode::kInvalidArgument,
      "CSI driver '{}' does not serve volumes of lifecycle mode {}: its CSIDriver object does "
      "not list it",
      volume.driver, mode);
}

// Makes the mount that the driver left to the runtime handler.
StatusOr<DeferredMount> MountVolumes::MakeDeferredMount(
    const Volume& volume, const platform::TargetPath& target,
    const csi::v1::FileSystemMountInfo& info) const {
  // Data is lost if two kernels, or two mounts of one kernel, use the same file system.
  constexpr std::string_view kAfter = "NodePublishVolume left the mount to the runtime handler";
  const platform::StagingPath staging =
      host_.paths().CsiGlobalMount(volume.driver, api::VolumeHandle(volume.handle));
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  for (const std::string& path : {target.text(), staging.text()}) {
    RETURN_IF_ERROR(CheckUnmounted(table, path, kAfter));
  }
  ASSIGN_OR_RETURN(DeferredMount mount, ReadMountInfo(volume, info));
  RETURN_IF_ERROR(CheckDeviceNotMounted(host_, table, mount.source));
  return mount;
}

StatusOr<Published> MountVolumes::Publish(const api::Pod& pod, const Volume& volume,
                                          const api::Labels& publish_context) {
  ASSIGN_OR_RETURN(const api::CsiDriver driver, ReadDriverObject(host_, volume.driver));
  RETURN_IF_ERROR(CheckLifecycle(volume, driver));
  ASSIGN_OR_RETURN(const auto client, drivers_.Get(volume.driver));
  ASSIGN_OR_RETURN(const NodeCapabilities capabilities, client->GetCapabilities());
  const bool staged = capabilities.stage_unstage && !volume.ephemeral;
  if (staged) RETURN_IF_ERROR(CheckStaged(volume));

  const api::PodUid pod_uid(pod.uid());
  const api::VolumeName name(volume.name);
  const platform::TargetPath target = GetTarget(pod_uid, name);
  const std::string folder = host_.paths().PodVolume(pod_uid, kPluginName, name);
  ASSIGN_OR_RETURN(const Finding before,
                   InspectFolder(host_.mounter(), folder, target, volume.driver,
                                 api::VolumeHandle(volume.handle)));
  csi::v1::NodePublishVolumeRequest request;
  request.set_volume_id(volume.handle);
  request.set_target_path(target.text());
  if (staged) {
    request.set_staging_target_path(
        host_.paths().CsiGlobalMount(volume.driver, api::VolumeHandle(volume.handle)).text());
  }
  request.set_readonly(volume.read_only);
  AssignLabels(publish_context, *request.mutable_publish_context());
  AssignLabels(volume.attributes, *request.mutable_volume_context());
  *request.mutable_volume_capability() = MakeCapability(volume, capabilities, pod.fs_group());
  ASSIGN_OR_RETURN(*request.mutable_secrets(), ReadSecret(host_, volume.publish_secret));
  RETURN_IF_ERROR(AddPodInputs(tokens_, pod, volume, driver, *request.mutable_volume_context(),
                               *request.mutable_secrets()));
  for (const std::string& type : volume.runtime_file_systems) {
    request.add_runtime_supported_filesystems(type);
  }

  RETURN_IF_ERROR(WriteVolData(folder, MakePodVolData(volume, api::NodeName(host_.node_name()))));
  const auto answer = client->rpc().NodePublishVolume(request, kCsiTimeout);
  if (rpc::IsFinal(answer.status()) && !before.driver_may_know()) ForgetNew(folder, target);
  RETURN_IF_ERROR(answer);
  const auto undo = [&] {
    // The next attempt must begin from the start. A mount that existed before may be in use.
    if (before.mounted) return;
    Undo(client->rpc().NodeUnpublishVolume(
        MakeUnpublishRequest(api::VolumeHandle(volume.handle), target), kCsiTimeout));
  };
  if (answer->has_runtime_mount_info()) {
    StatusOr<DeferredMount> mount = MakeDeferredMount(volume, target, answer->runtime_mount_info());
    if (!mount.ok()) {
      undo();
      return mount.status();
    }
    if (NodeAppliesFsGroup(volume, capabilities, driver, pod)) {
      mount->fs_group = pod.fs_group();
      mount->only_on_root_mismatch = pod.fs_group_change_policy() == "OnRootMismatch";
    }
    return Published{
        .path = target.text(), .read_only = volume.read_only, .deferred = *std::move(mount)};
  }
  const bool read_only = volume.read_only && !volume.ephemeral;
  // Drivers exist that mount writable whatever they are asked. The kubelet leaves it at that,
  // because the containers' own mounts are read-only.
  if (read_only) {
    if (const Status made = MakeReadOnly(host_.mounter(), target.text()); !made.ok()) {
      undo();
      return made;
    }
  }
  // Drivers make the content of inline volumes for pods. The widely used drivers of secrets and
  // identities demand read-only uses, mount writable to update the content, and may show one folder
  // to several pods. The container's own mount is read-only all the same.
  const Expected expected{.after = "NodePublishVolume",
                          .driver = volume.driver,
                          .handle = volume.handle,
                          .mounted = true,
                          .read_only = read_only,
                          .alone = IsForOneNode(volume) && !volume.ephemeral};
  if (const Status right = CheckMounted(host_.mounter(), host_.paths(), target.text(), expected);
      !right.ok()) {
    undo();
    return right;
  }
  if (NodeAppliesFsGroup(volume, capabilities, driver, pod)) {
    RETURN_IF_ERROR(ApplyPodFsGroup(host_, pod, target.text()));
  }
  return Published{.path = target.text(), .read_only = volume.read_only};
}

Status MountVolumes::Unpublish(const Record& record, const api::PodUid& pod,
                               const api::VolumeName& name) {
  const platform::TargetPath target = GetTarget(pod, name);
  const std::string folder = host_.paths().PodVolume(pod, kPluginName, name);
  ASSIGN_OR_RETURN(const Finding before,
                   InspectFolder(host_.mounter(), folder, target, record.driver,
                                 api::VolumeHandle(record.handle)));
  // As in Unstage: without a record, NodePublishVolume was never called, or NodeUnpublishVolume has
  // succeeded.
  if (before.driver_may_know()) {
    RETURN_IF_ERROR(UnpublishByDriver(drivers_, record, target));
    RETURN_IF_ERROR(CheckUnmounted(host_.mounter(), target.text(), "NodeUnpublishVolume"));
  }
  tokens_.ForgetTokens(pod);
  RETURN_IF_ERROR(RemoveEmptyFolder(target.text()));
  return RemoveVolData(folder);
}

}  // namespace berth::volume::csi_volume
