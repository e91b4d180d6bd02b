#include "crustproxy/volumes.h"

#include <algorithm>

#include "base/log.h"
#include "crustproxy/handler_calls.h"
#include "crustproxy/host_publishes.h"
#include "platform/file_systems/device_file_system.h"
#include "platform/files/selinux.h"
#include "platform/mounts/placeholder.h"
#include "rpc/outcome.h"
#include "volume/csi/csi_volume.h"
#include "volume/csi/deferred_mount.h"
#include "volume/csi/release.h"
#include "volume/csi/selinux.h"

namespace berth::crustproxy {
namespace {

namespace csi_volume = volume::csi_volume;
using base::Error;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using volume::DeferredMount;
using volume::kCsiTimeout;

// The error of a publish, if the pod may have the volume (see the header).
Status AsUncertain(const Status& failure) {
  if (!rpc::IsFinal(failure)) return failure;
  return Error(StatusCode::kUnavailable, "{}", base::ToString(failure));
}

// Whether the driver says by this error that it cannot publish the volume as a block device (CSI:
// "Unsupported volume capability"; a driver without the notion of block devices).
bool RefusesBlock(const Status& failure) {
  return failure.code() == StatusCode::kInvalidArgument ||
         failure.code() == StatusCode::kUnimplemented;
}

Status CheckNoSandboxHasIt(const VolumeRecord& record) {
  for (const PodUse& use : record.pods) {
    // The driver has staged it as a device, and cannot stage it in another way beside that.
    const bool as_device = record.staging == Staging::kBlock;
    if (node::AllowsParallelMounts(use.mount.fs_type) && !as_device) continue;
    return Error(StatusCode::kFailedPrecondition,
                 "the volume's {} is mounted in the sandbox of pod {}, so the host cannot mount it "
                 "for another pod",
                 use.mount.fs_type.empty() ? "file system" : use.mount.fs_type, use.pod);
  }
  return OkStatus();
}

// Reads the groups, label and options with which a handler mounts the volume.
StatusOr<DeferredMount> ReadMount(const csi::v1::NodePublishVolumeRequest& request,
                                  const PodVolume& volume, const volume::NodeCapabilities& driver) {
  DeferredMount mount;
  ReadMountFlags(request.volume_capability(), mount);
  // Without a context the container runtime would relabel the files on the host.
  if (mount.selinux_label.empty()) {
    mount.selinux_relabel =
        platform::KernelHasSelinux() || csi_volume::NamesLabel(volume.pod, volume.spec);
    mount.selinux_label = csi_volume::FindFileLabel(volume.pod, volume.spec);
  }
  mount.fs_group = ReadMountGroup(request.volume_capability());
  ASSIGN_OR_RETURN(csi_volume::Volume read, csi_volume::ReadVolume(volume.spec, nullptr));
  read.read_only = request.readonly();
  if (csi_volume::NodeAppliesFsGroup(read, driver, volume.driver, volume.pod)) {
    mount.fs_group = volume.pod.fs_group();
  }
  if (request.readonly()) mount.fs_group.reset();
  mount.only_on_root_mismatch = volume.pod.fs_group_change_policy() == "OnRootMismatch";
  return mount;
}

// Whether a handler can mount the volume.
StatusOr<volume::VolumePlugin::Deferral> CanDefer(const csi::v1::NodePublishVolumeRequest& request,
                                                  const VolumeRecord& record,
                                                  const PodVolume& volume,
                                                  const volume::NodeCapabilities& driver) {
  const bool deferred = record.staging == Staging::kDeferred || record.staging == Staging::kBlock;
  if (!driver.runtime_assisted_mount && driver.stage_unstage && !deferred) {
    return volume::VolumePlugin::Deferral{
        .why_not =
            "its driver mounted it while it staged it, because it gets secrets for that, or "
            "no pod with a runtime handler used it then"};
  }
  ASSIGN_OR_RETURN(const DeferredMount mount, ReadMount(request, volume, driver));
  // Only a driver that leaves the mount can pass its secrets on to the handler.
  return volume::VolumePlugin::Deferral{
      .fs_group = mount.fs_group.has_value(),
      .selinux_relabel = mount.selinux_relabel,
      .selinux_on_mount = !mount.selinux_label.empty() && !mount.selinux_relabel,
      .secrets = driver.runtime_assisted_mount && !request.secrets().empty()};
}

// An unpublished volume that is staged as the kubelet wants it needs no record.
Status WriteOrForget(VolumeRecords& records, const VolumeRecord& record) {
  if (record.pods.empty() && record.host_targets.empty() && record.staging == Staging::kByKubelet) {
    return records.Remove(record.handle.text());
  }
  return records.Write(record);
}

}  // namespace

StatusOr<volume::NodeCapabilities> Volumes::ReadDriverCapabilities() {
  csi::v1::NodeGetCapabilitiesRequest request;
  request.set_runtime_supports_mount(true);
  ASSIGN_OR_RETURN(const auto answer, parts_.driver.NodeGetCapabilities(request, kCsiTimeout));
  return volume::ReadNodeCapabilities(answer);
}

StatusOr<csi::v1::NodeStageVolumeResponse> Volumes::Stage(
    const csi::v1::NodeStageVolumeRequest& request) {
  const auto pass_on = [&] { return parts_.driver.NodeStageVolume(request, kCsiTimeout); };
  // Secrets are not kept, so the driver must get them now.
  if (!request.volume_capability().has_mount() || !request.secrets().empty()) return pass_on();
  ASSIGN_OR_RETURN(const auto hold, locks_.LockExclusive(request.volume_id(), "NodeStageVolume"));
  std::optional<VolumeRecord> record = parts_.records.Find(request.volume_id());
  if (!record.has_value()) {
    ASSIGN_OR_RETURN(const volume::NodeCapabilities driver, ReadDriverCapabilities());
    // A driver that knows runtime handlers mounts nothing while it stages.
    if (driver.runtime_assisted_mount) return pass_on();
    ASSIGN_OR_RETURN(const bool may_defer, parts_.cluster.HasPodWithHandler(request.volume_id()));
    if (!may_defer) return pass_on();
    record.emplace(VolumeRecord{.handle = api::VolumeHandle(request.volume_id()),
                                .staging = Staging::kDeferred});
  }
  if (record->staging == Staging::kByKubelet || record->staging == Staging::kMount) {
    return pass_on();
  }
  record->stage = request;
  RETURN_IF_ERROR(parts_.records.Write(*record));
  if (record->staging == Staging::kMounting) RETURN_IF_ERROR(StageForHost(*record));
  return csi::v1::NodeStageVolumeResponse();
}

StatusOr<csi::v1::NodeUnstageVolumeResponse> Volumes::Unstage(
    const csi::v1::NodeUnstageVolumeRequest& request) {
  ASSIGN_OR_RETURN(const auto hold, locks_.LockExclusive(request.volume_id(), "NodeUnstageVolume"));
  const std::optional<VolumeRecord> record = parts_.records.Find(request.volume_id());
  if (record.has_value() && !record->pods.empty()) {
    return Error(StatusCode::kFailedPrecondition, "volume {} is still published for pod {}",
                 Quote(request.volume_id()), record->pods.front().pod);
  }
  csi::v1::NodeUnstageVolumeResponse response;
  if (record.has_value() && record->staging == Staging::kBlock) {
    RETURN_IF_ERROR(devices_.Unstage(*record));
  } else if (!record.has_value() || record->staging != Staging::kDeferred) {
    ASSIGN_OR_RETURN(response, parts_.driver.NodeUnstageVolume(request, kCsiTimeout));
  }
  RETURN_IF_ERROR(parts_.records.Remove(request.volume_id()));
  return response;
}

StatusOr<csi::v1::NodePublishVolumeResponse> Volumes::Publish(
    const csi::v1::NodePublishVolumeRequest& request) {
  const std::optional<PodTarget> target = ReadTarget(parts_.paths, request.target_path());
  if (!target.has_value() || !request.volume_capability().has_mount()) {
    return parts_.driver.NodePublishVolume(request, kCsiTimeout);
  }
  ASSIGN_OR_RETURN(const auto hold, locks_.LockExclusive(request.volume_id(), "NodePublishVolume"));
  auto published = PublishForPod(request, *target);
  if (rpc::IsFinal(published.status()) && MayBeLeft(request)) {
    return AsUncertain(published.status());
  }
  return published;
}

bool Volumes::MayBeLeft(const csi::v1::NodePublishVolumeRequest& request) {
  const std::string& target = request.target_path();
  std::optional<VolumeRecord> record = parts_.records.Find(request.volume_id());
  if (record.has_value() && (record->FindPod(target) != nullptr || record->HasHostTarget(target))) {
    return true;
  }
  const auto there = platform::LookAtTarget(parts_.mounter, target);
  return !there.ok() || *there != platform::AtTarget::kNothing;
}

StatusOr<csi::v1::NodePublishVolumeResponse> Volumes::PublishForPod(
    const csi::v1::NodePublishVolumeRequest& request, const PodTarget& target) {
  VolumeRecord record =
      parts_.records.Find(request.volume_id())
          .value_or(VolumeRecord{.handle = api::VolumeHandle(request.volume_id())});
  const PodUse* known = record.FindPod(request.target_path());
  if (known != nullptr && known->published) {
    RETURN_IF_ERROR(PublishToPod(*known, request.readonly()));
    return csi::v1::NodePublishVolumeResponse();
  }
  // A volume that the host has mounted for the pod stays there, whatever would be decided now.
  ASSIGN_OR_RETURN(platform::AtTarget there,
                   platform::LookAtTarget(parts_.mounter, request.target_path()));
  if (there == platform::AtTarget::kOther && known != nullptr) {
    // The driver mounted it, where it was to leave the mount, and that was not recorded.
    RETURN_IF_ERROR(UndoPublish(record, request.target_path()));
    there = platform::AtTarget::kNothing;
  }
  if (there == platform::AtTarget::kOther || record.HasHostTarget(request.target_path())) {
    return PublishOnHost(request, std::move(record));
  }
  auto volume = parts_.cluster.FindPodVolume(target.pod, target.volume, request.volume_id());
  if (!volume.ok()) return AsUncertain(volume.status());
  if (!volume->has_value()) return PublishOnHost(request, std::move(record));
  Publishing job{.request = request,
                 .pod = target.pod,
                 .volume = **std::move(volume),
                 .driver = {},
                 .record = std::move(record)};
  if (const Status decided = DecideWhoMounts(job); !decided.ok()) return AsUncertain(decided);
  if (const PodUse* before = job.record.FindPod(request.target_path()); before != nullptr) {
    // An earlier call may have reached the handler. The pod has no sandbox yet, so nothing is lost
    // if that begins again; and the driver must not find the handler's placeholder at its target.
    RETURN_IF_ERROR(before->handler == job.handler.socket
                        ? UnpublishFromPod(*before)
                        : UndoPublish(job.record, request.target_path()));
  }
  if (job.handler.socket.empty()) return PublishOnHost(request, std::move(job.record));
  if (job.record.name.empty()) job.record.name = target.volume;
  RETURN_IF_ERROR(CheckHostHasItNot(job));
  return PublishInSandbox(job);
}

Status Volumes::DecideWhoMounts(Publishing& job) {
  const PodVolume& volume = job.volume;
  RETURN_IF_ERROR(parts_.deferral.CheckAccessModes(volume.pod, volume.spec));
  ASSIGN_OR_RETURN(job.driver, ReadDriverCapabilities());
  ASSIGN_OR_RETURN(job.handler,
                   parts_.deferral.ChooseHandler(volume.pod, volume.names, volume.spec, [&] {
                     return CanDefer(job.request, job.record, volume, job.driver);
                   }));
  return OkStatus();
}

Status Volumes::ReportChoice(const Publishing& job, const DeferredMount* mount) {
  const PodVolume& volume = job.volume;
  return parts_.deferral.ReportChoice(volume.pod, volume.names, volume.spec, job.handler, mount);
}

Status Volumes::CheckHostHasItNot(const Publishing& job) {
  // Such a driver keeps to it by itself (docs/crust.md).
  if (job.driver.runtime_assisted_mount) return OkStatus();
  ASSIGN_OR_RETURN(const auto other,
                   FindHostPublish(parts_.mounter, parts_.paths, job.record, job.record.name,
                                   platform::TargetPath(job.request.target_path()),
                                   job.request.volume_capability().mount().fs_type()));
  if (!other.has_value()) return OkStatus();
  return Error(StatusCode::kFailedPrecondition,
               "the volume is mounted on the host for pod {}, so it cannot be mounted in a sandbox "
               "for another pod",
               *other);
}

Status Volumes::StageForHost(VolumeRecord& record) {
  const bool repeated = record.staging == Staging::kMounting;
  record.staging = Staging::kMounting;
  if (!repeated) RETURN_IF_ERROR(parts_.records.Write(record));
  const Status staged = parts_.driver.NodeStageVolume(record.stage, kCsiTimeout).status();
  if (staged.ok()) {
    record.staging = Staging::kMount;
    return parts_.records.Write(record);
  }
  // What an earlier request did is not known, so only NodeUnstageVolume undoes it.
  if (repeated) return AsUncertain(staged);
  if (rpc::IsFinal(staged) || rpc::WasNotSent(staged)) {
    record.staging = Staging::kDeferred;
    RETURN_IF_ERROR(parts_.records.Write(record));
  }
  return staged;
}

StatusOr<csi::v1::NodePublishVolumeResponse> Volumes::PublishOnHost(
    const csi::v1::NodePublishVolumeRequest& request, VolumeRecord record) {
  RETURN_IF_ERROR(CheckNoSandboxHasIt(record));
  if (record.staging == Staging::kBlock) {
    RETURN_IF_ERROR(devices_.Unstage(record));
    record.staging = Staging::kDeferred;
    RETURN_IF_ERROR(parts_.records.Write(record));
  }
  if (record.staging == Staging::kDeferred || record.staging == Staging::kMounting) {
    RETURN_IF_ERROR(StageForHost(record));
  }
  const std::string& target = request.target_path();
  const bool first = !record.HasHostTarget(target);
  const bool recorded = request.staging_target_path().empty();
  if (recorded && first) {
    record.host_targets.emplace_back(target);
    RETURN_IF_ERROR(parts_.records.Write(record));
  }
  auto published = parts_.driver.NodePublishVolume(request, kCsiTimeout);
  if (recorded && first && rpc::IsFinal(published.status())) {
    record.RemoveHostTarget(target);
    RETURN_IF_ERROR(WriteOrForget(parts_.records, record));
  }
  return published;
}

StatusOr<csi::v1::NodePublishVolumeResponse> Volumes::PublishInSandbox(Publishing& job) {
  const std::string& target = job.request.target_path();
  if (job.record.FindPod(target) == nullptr) {
    job.record.pods.push_back({.pod = job.pod,
                               .target = platform::TargetPath(target),
                               .handler = job.handler.socket,
                               .left_by_driver = job.driver.runtime_assisted_mount});
  }
  if (!job.driver.runtime_assisted_mount && job.driver.stage_unstage) {
    job.record.staging = Staging::kBlock;
  }
  RETURN_IF_ERROR(parts_.records.Write(job.record));
  const Status published = [&]() -> Status {
    ASSIGN_OR_RETURN(const std::optional<DeferredMount> mount,
                     job.driver.runtime_assisted_mount ? AskDriver(job) : AskForDevice(job));
    if (!mount.has_value()) return UndoPublish(job.record, target);
    PodUse& use = *job.record.FindPod(target);
    use.mount = *mount;
    RETURN_IF_ERROR(parts_.records.Write(job.record));
    RETURN_IF_ERROR(ReportChoice(job, &*mount));
    RETURN_IF_ERROR(PublishToPod(use, job.request.readonly()));
    use.published = true;
    return parts_.records.Write(job.record);
  }();
  if (!published.ok()) return AsUncertain(published);
  if (job.record.FindPod(target) != nullptr) return csi::v1::NodePublishVolumeResponse();
  return PublishOnHost(job.request, job.record);
}

StatusOr<std::optional<DeferredMount>> Volumes::AskDriver(const Publishing& job) {
  csi::v1::NodePublishVolumeRequest request = job.request;
  for (const std::string& type : job.handler.file_systems) {
    request.add_runtime_supported_filesystems(type);
  }
  ASSIGN_OR_RETURN(const auto answer, parts_.driver.NodePublishVolume(request, kCsiTimeout));
  if (!answer.has_runtime_mount_info()) {
    RETURN_IF_ERROR(ReportChoice(job, nullptr));
    return std::optional<DeferredMount>();
  }
  ASSIGN_OR_RETURN(const DeferredMount asked, ReadMount(job.request, job.volume, job.driver));
  csi_volume::Volume volume;
  volume.runtime_file_systems = job.handler.file_systems;
  volume.relabel = asked.selinux_relabel;
  (volume.relabel ? volume.file_label : volume.selinux_context) = asked.selinux_label;
  ASSIGN_OR_RETURN(DeferredMount mount,
                   csi_volume::ReadMountInfo(volume, answer.runtime_mount_info()));
  mount.fs_group = asked.fs_group;
  mount.only_on_root_mismatch = asked.only_on_root_mismatch;
  return std::optional(std::move(mount));
}

StatusOr<std::optional<DeferredMount>> Volumes::AskForDevice(const Publishing& job) {
  const auto host_mounts = [&](std::string_view why) {
    parts_.deferral.ReportHostMount(job.volume.pod, job.volume.spec, why);
    return std::optional<DeferredMount>();
  };
  StatusOr<std::string> device = [&]() -> StatusOr<std::string> {
    if (job.driver.stage_unstage) RETURN_IF_ERROR(devices_.Stage(job.record));
    return devices_.Publish(job.record, job.pod, job.request);
  }();
  if (RefusesBlock(device.status())) {
    return host_mounts(fmt::format(
        "its driver neither leaves mounts to runtime handlers nor publishes the volume as a block "
        "device: {}",
        base::Message(device.status())));
  }
  RETURN_IF_ERROR(device);
  ASSIGN_OR_RETURN(DeferredMount mount, ReadMount(job.request, job.volume, job.driver));
  mount.source = *device;
  ASSIGN_OR_RETURN(mount.fs_type,
                   platform::ChooseFileSystemType(
                       mount.source, job.request.volume_capability().mount().fs_type()));
  if (std::ranges::find(job.handler.file_systems, mount.fs_type) ==
      job.handler.file_systems.end()) {
    return host_mounts(fmt::format("its file system is {}, and the handler mounts {}",
                                   mount.fs_type, fmt::join(job.handler.file_systems, ", ")));
  }
  // A volume that another pod's sandbox has is in use, and so is ready.
  if (!job.request.readonly() && job.record.pods.size() == 1) {
    RETURN_IF_ERROR(devices_.PrepareFileSystem(mount.source, mount.fs_type));
  }
  return std::optional(std::move(mount));
}

Status Volumes::UndoPublish(VolumeRecord& record, const std::string& target) {
  const PodUse use = *record.FindPod(target);
  RETURN_IF_ERROR(UnpublishFromPod(use));
  RETURN_IF_ERROR(ReleaseAtDriver(record, use));
  record.RemovePod(target);
  if (record.pods.empty() && record.staging == Staging::kBlock) {
    RETURN_IF_ERROR(devices_.Unstage(record));
    record.staging = Staging::kDeferred;
  }
  return WriteOrForget(parts_.records, record);
}

Status Volumes::ReleaseAtDriver(const VolumeRecord& record, const PodUse& use) {
  if (!use.left_by_driver) return devices_.Unpublish(record, use.pod);
  return csi_volume::UnpublishByDriver(parts_.driver, {.handle = record.handle.text()}, use.target);
}

StatusOr<csi::v1::NodeUnpublishVolumeResponse> Volumes::Unpublish(
    const csi::v1::NodeUnpublishVolumeRequest& request) {
  ASSIGN_OR_RETURN(const auto hold,
                   locks_.LockExclusive(request.volume_id(), "NodeUnpublishVolume"));
  std::optional<VolumeRecord> record = parts_.records.Find(request.volume_id());
  const PodUse* use = record.has_value() ? record->FindPod(request.target_path()) : nullptr;
  if (use == nullptr) {
    ASSIGN_OR_RETURN(const auto response, parts_.driver.NodeUnpublishVolume(request, kCsiTimeout));
    if (record.has_value() && record->HasHostTarget(request.target_path())) {
      record->RemoveHostTarget(request.target_path());
      RETURN_IF_ERROR(WriteOrForget(parts_.records, *record));
    }
    return response;
  }
  RETURN_IF_ERROR(UnpublishFromPod(*use));
  RETURN_IF_ERROR(ReleaseAtDriver(*record, *use));
  record->RemovePod(request.target_path());
  RETURN_IF_ERROR(WriteOrForget(parts_.records, *record));
  return csi::v1::NodeUnpublishVolumeResponse();
}

StatusOr<csi::v1::NodeGetVolumeStatsResponse> Volumes::GetStats(
    const csi::v1::NodeGetVolumeStatsRequest& request) {
  std::optional<VolumeRecord> record = parts_.records.Find(request.volume_id());
  const PodUse* use = record.has_value() ? record->FindPod(request.volume_path()) : nullptr;
  if (use != nullptr) return AskHandlerForStats(*use);
  ASSIGN_OR_RETURN(const volume::NodeCapabilities driver, ReadDriverCapabilities());
  if (driver.volume_stats) return parts_.driver.NodeGetVolumeStats(request, kCsiTimeout);
  // The proxy offers statistics for the sake of the handlers, so that the kubelet asks for those of
  // other volumes, too.
  return ReadStatsOnHost(request.volume_path());
}

StatusOr<csi::v1::NodeExpandVolumeResponse> Volumes::Expand(
    const csi::v1::NodeExpandVolumeRequest& request) {
  ASSIGN_OR_RETURN(const auto hold, locks_.LockExclusive(request.volume_id(), "NodeExpandVolume"));
  std::optional<VolumeRecord> record = parts_.records.Find(request.volume_id());
  const PodUse* use = record.has_value() ? record->FindPod(request.volume_path()) : nullptr;
  ASSIGN_OR_RETURN(const volume::NodeCapabilities driver, ReadDriverCapabilities());
  csi::v1::NodeExpandVolumeResponse response;
  if (use == nullptr) {
    // A driver without the capability grows nothing on the node.
    return driver.expand ? parts_.driver.NodeExpandVolume(request, kCsiTimeout) : response;
  }
  ASSIGN_OR_RETURN(const bool grows, HandlerGrowsVolumes(*use));
  if (!grows) {
    // The kubelet does not try again.
    return Error(StatusCode::kFailedPrecondition,
                 "the runtime handler that has the volume mounted grows no file systems");
  }
  if (driver.expand && !use->left_by_driver) {
    ASSIGN_OR_RETURN(response, devices_.Expand(*record, use->pod, request));
  } else if (driver.expand) {
    csi::v1::NodeExpandVolumeRequest deferring = request;
    deferring.set_runtime_supports_expand(true);
    ASSIGN_OR_RETURN(response, parts_.driver.NodeExpandVolume(deferring, kCsiTimeout));
  }
  ASSIGN_OR_RETURN(const int64_t bytes,
                   AskHandlerToGrow(*use, std::max(request.capacity_range().required_bytes(),
                                                   response.capacity_bytes())));
  response.clear_source();
  response.set_capacity_bytes(bytes);
  return response;
}

StatusOr<csi::v1::NodeGetCapabilitiesResponse> Volumes::GetCapabilities(
    const csi::v1::NodeGetCapabilitiesRequest& request) {
  using Rpc = csi::v1::NodeServiceCapability::RPC;
  ASSIGN_OR_RETURN(auto answer, parts_.driver.NodeGetCapabilities(request, kCsiTimeout));
  const volume::NodeCapabilities driver = volume::ReadNodeCapabilities(answer);
  if (!driver.volume_stats)
    answer.add_capabilities()->mutable_rpc()->set_type(Rpc::GET_VOLUME_STATS);
  if (!driver.expand) answer.add_capabilities()->mutable_rpc()->set_type(Rpc::EXPAND_VOLUME);
  return answer;
}

}  // namespace berth::crustproxy
