#include "volume/csi/csi_plugin.h"

#include "api/kinds/csi_names.h"
#include "volume/csi/block_volumes.h"
#include "volume/csi/csi_volume.h"
#include "volume/csi/deferred_mount.h"
#include "volume/csi/driver_clients.h"
#include "volume/csi/find_volumes.h"
#include "volume/csi/mount_volumes.h"
#include "volume/csi/node_inputs.h"
#include "volume/csi/selinux.h"
#include "volume/csi/vol_data.h"

namespace berth::volume {
namespace {

using base::Error;
using base::OkStatus;
using base::StatusCode;
using csi_volume::Record;
using csi_volume::Volume;

// The error of a step that this node makes before the driver's call. It may succeed later (a Secret
// that does not exist yet), so its code must not be one with which a driver says that the volume
// can never grow (volume_expansion.h).
Status ToRetryableError(const Status& why, std::string_view volume) {
  const bool passes =
      why.code() == StatusCode::kUnimplemented || why.code() == StatusCode::kFailedPrecondition;
  return Error(passes ? why.code() : StatusCode::kUnavailable, "grow volume '{}': {}", volume,
               base::Message(why));
}

// The error of a handler's call. FAILED_PRECONDITION is a handler's final answer about a volume
// (KEP-2857, story 6). UNIMPLEMENTED is converted to it, because UNIMPLEMENTED would mean that
// there is nothing to grow.
Status ToHandlerError(const Status& why, std::string_view volume) {
  if (why.code() != StatusCode::kUnimplemented) return ToRetryableError(why, volume);
  return Error(StatusCode::kFailedPrecondition, "grow volume '{}': {}", volume, base::Message(why));
}

class CsiPlugin : public VolumePlugin {
 public:
  explicit CsiPlugin(Host& host)
      : host_(host), drivers_(host), mounts_(host, drivers_), blocks_(host, drivers_) {}

  std::string_view name() const override { return csi_volume::kPluginName; }
  bool Supports(const VolumeSpec& spec) const override;
  StatusOr<std::optional<std::string>> DeviceName(const VolumeSpec& spec) const override;
  StatusOr<bool> NeedsAttach(const VolumeSpec& spec) const override;
  StatusOr<Json> DeviceState(const VolumeSpec& spec) const override;
  StatusOr<Json> PodState(const api::Pod& pod, const VolumeSpec& spec) const override;
  Status MountDevice(const api::Pod& pod, const VolumeSpec& spec,
                     const api::Labels& publish_context) override;
  Status UnmountDevice(const DeviceRecord& record) override;
  std::string DevicePath(const DeviceRecord& record) const override;
  StatusOr<Deferral> CanDefer(const api::Pod& pod, const VolumeSpec& spec) override;
  StatusOr<Published> SetUp(const api::Pod& pod, const VolumeSpec& spec,
                            const api::Labels& publish_context) override;
  Status TearDown(const PodVolumeRecord& record) override;
  Status ForgetDevice(const DeviceRecord& record) override;
  Status ForgetPodVolume(const PodVolumeRecord& record) override;
  void CancelCalls() override { drivers_.CancelCalls(); }
  Status Expand(const PodVolumeRecord& record, const VolumeSpec& spec, int64_t bytes) override;
  StatusOr<Found> FindOnNode() const override { return csi_volume::FindVolumes(host_.paths()); }
  StatusOr<Stats> GetStats(const PodVolumeRecord& record) override;
  StatusOr<std::optional<Condition>> GetCondition(const PodVolumeRecord& record) override;

 private:
  // Reads the volume, with its labels and the file systems that the runtime handler can mount.
  StatusOr<Volume> ReadVolumeFor(const api::Pod& pod, const VolumeSpec& spec) const;
  // Calls NodeGetVolumeStats. `in_sandbox`: the driver need only name the source, because the
  // runtime handler knows the usage.
  StatusOr<csi::v1::NodeGetVolumeStatsResponse> AskStats(DriverClient& client, const Record& volume,
                                                         const PodVolumeRecord& record,
                                                         bool in_sandbox);
  // Makes a client of the volume's runtime handler. UNIMPLEMENTED: it has no volume statistics.
  StatusOr<std::unique_ptr<csi_volume::SandboxHandler>> ConnectForStats(
      const PodVolumeRecord& record) const;
  StatusOr<csi::v1::NodeExpandVolumeRequest> MakeExpandRequest(const PodVolumeRecord& record,
                                                               const Volume& volume, int64_t bytes,
                                                               DriverClient& client);
  // The target path of the volume.
  platform::TargetPath GetPublishedPath(const PodVolumeRecord& record) const;

  Host& host_;
  DriverClients drivers_;
  csi_volume::MountVolumes mounts_;
  csi_volume::BlockVolumes blocks_;
};

bool CsiPlugin::Supports(const VolumeSpec& spec) const {
  return spec.pv != nullptr ? spec.pv->has_csi() : spec.pod_volume.source_type() == "csi";
}

StatusOr<std::optional<std::string>> CsiPlugin::DeviceName(const VolumeSpec& spec) const {
  if (spec.pv == nullptr) return std::optional<std::string>();
  ASSIGN_OR_RETURN(const Volume volume, csi_volume::ReadVolume(spec, nullptr));
  return std::optional(api::UniqueVolumeName(volume.driver, api::VolumeHandle(volume.handle)));
}

StatusOr<bool> CsiPlugin::NeedsAttach(const VolumeSpec& spec) const {
  if (spec.pv == nullptr) return false;
  ASSIGN_OR_RETURN(const Volume volume, csi_volume::ReadVolume(spec, nullptr));
  const auto driver = csi_volume::ReadDriverObject(host_, volume.driver);
  if (!driver.ok()) {
    return Error(StatusCode::kUnavailable,
                 "whether volume '{}' needs to be attached is not known: {}", spec.name,
                 base::Message(driver.status()));
  }
  return driver->attach_required();
}

StatusOr<Json> CsiPlugin::DeviceState(const VolumeSpec& spec) const {
  ASSIGN_OR_RETURN(const Volume volume, csi_volume::ReadVolume(spec, nullptr));
  return csi_volume::ToJson(volume);
}

StatusOr<Json> CsiPlugin::PodState(const api::Pod& pod, const VolumeSpec& spec) const {
  ASSIGN_OR_RETURN(const Volume volume, csi_volume::ReadVolume(spec, &pod));
  return csi_volume::ToJson(volume);
}

StatusOr<Volume> CsiPlugin::ReadVolumeFor(const api::Pod& pod, const VolumeSpec& spec) const {
  ASSIGN_OR_RETURN(Volume volume, csi_volume::ReadVolume(spec, &pod));
  volume.runtime_file_systems = spec.runtime_file_systems;
  if (volume.block) return volume;
  volume.file_label = csi_volume::FindFileLabel(pod, spec);
  // Even if this host has no SELinux, the sandbox may have it.
  volume.relabel = host_.selinux() || csi_volume::NamesLabel(pod, spec);
  if (!host_.selinux()) return volume;
  ASSIGN_OR_RETURN(const api::CsiDriver driver, csi_volume::ReadDriverObject(host_, volume.driver));
  if (!driver.Bool({"spec", "seLinuxMount"})) return volume;
  ASSIGN_OR_RETURN(volume.selinux_context, csi_volume::FindMountContext(pod, spec));
  volume.relabel = volume.selinux_context.empty();
  return volume;
}

Status CsiPlugin::MountDevice(const api::Pod& pod, const VolumeSpec& spec,
                              const api::Labels& publish_context) {
  ASSIGN_OR_RETURN(const Volume volume, ReadVolumeFor(pod, spec));
  if (volume.ephemeral) return OkStatus();
  const Status staged = volume.block ? blocks_.Stage(volume, publish_context)
                                     : mounts_.Stage(pod, volume, publish_context);
  return base::Annotate(staged, fmt::format("stage volume '{}'", volume.name));
}

Status CsiPlugin::UnmountDevice(const DeviceRecord& record) {
  ASSIGN_OR_RETURN(const Record volume, csi_volume::ReadRecord(record.state));
  const Status unstaged = volume.block ? blocks_.Unstage(volume, api::VolumeName(record.pv_name))
                                       : mounts_.Unstage(volume);
  return base::Annotate(unstaged, fmt::format("unstage volume '{}'", record.pv_name));
}

std::string CsiPlugin::DevicePath(const DeviceRecord& record) const {
  const auto volume = csi_volume::ReadRecord(record.state);
  if (!volume.ok() || volume->block) return "";
  return host_.paths().CsiGlobalMount(volume->driver, api::VolumeHandle(volume->handle)).text();
}

StatusOr<VolumePlugin::Deferral> CsiPlugin::CanDefer(const api::Pod& pod, const VolumeSpec& spec) {
  if (spec.block()) return Deferral{.why_not = "a raw block volume has no file system to mount"};
  ASSIGN_OR_RETURN(const Volume volume, ReadVolumeFor(pod, spec));
  ASSIGN_OR_RETURN(const auto client, drivers_.Get(volume.driver));
  ASSIGN_OR_RETURN(const NodeCapabilities capabilities, client->GetCapabilities());
  if (!capabilities.runtime_assisted_mount) {
    return Deferral{.why_not = fmt::format("CSI driver '{}' does not leave mounts to runtime "
                                           "handlers",
                                           volume.driver)};
  }
  ASSIGN_OR_RETURN(const api::CsiDriver driver, csi_volume::ReadDriverObject(host_, volume.driver));
  return Deferral{.fs_group = NodeAppliesFsGroup(volume, capabilities, driver, pod),
                  .selinux_relabel = volume.relabel,
                  .selinux_on_mount = !volume.selinux_context.empty(),
                  .secrets = !volume.publish_secret.empty() || csi_volume::HasSecretTokens(driver)};
}

StatusOr<Published> CsiPlugin::SetUp(const api::Pod& pod, const VolumeSpec& spec,
                                     const api::Labels& publish_context) {
  ASSIGN_OR_RETURN(const Volume volume, ReadVolumeFor(pod, spec));
  auto published = volume.block ? blocks_.Publish(pod, volume, publish_context)
                                : mounts_.Publish(pod, volume, publish_context);
  RETURN_IF_ERROR_WITH(published,
                       fmt::format("publish volume '{}' for pod '{}'", volume.name, pod.key()));
  return published;
}

Status CsiPlugin::TearDown(const PodVolumeRecord& record) {
  ASSIGN_OR_RETURN(const Record volume, csi_volume::ReadRecord(record.state));
  const api::PodUid pod(record.pod_uid);
  const api::VolumeName name(record.folder_name);
  const Status unpublished =
      record.block ? blocks_.Unpublish(volume, pod, name) : mounts_.Unpublish(volume, pod, name);
  return base::Annotate(unpublished, fmt::format("unpublish volume '{}' of pod {}",
                                                 record.folder_name, record.pod_uid));
}

Status CsiPlugin::ForgetDevice(const DeviceRecord& record) {
  ASSIGN_OR_RETURN(const Record volume, csi_volume::ReadRecord(record.state));
  return volume.block ? blocks_.ForgetDevice(volume, api::VolumeName(record.pv_name))
                      : mounts_.ForgetDevice(volume);
}

Status CsiPlugin::ForgetPodVolume(const PodVolumeRecord& record) {
  ASSIGN_OR_RETURN(const Record volume, csi_volume::ReadRecord(record.state));
  const api::PodUid pod(record.pod_uid);
  const api::VolumeName name(record.folder_name);
  return record.block ? blocks_.ForgetPod(volume, pod, name) : mounts_.ForgetPod(volume, pod, name);
}

platform::TargetPath CsiPlugin::GetPublishedPath(const PodVolumeRecord& record) const {
  const api::PodUid pod(record.pod_uid);
  const api::VolumeName name(record.folder_name);
  return record.block ? host_.paths().CsiBlockPublish(name, pod) : mounts_.GetTarget(pod, name);
}

StatusOr<csi::v1::NodeExpandVolumeRequest> CsiPlugin::MakeExpandRequest(
    const PodVolumeRecord& record, const Volume& volume, int64_t bytes, DriverClient& client) {
  ASSIGN_OR_RETURN(const Record recorded, csi_volume::ReadRecord(record.state));
  if (volume.driver != recorded.driver || volume.handle != recorded.handle) {
    return Error(StatusCode::kFailedPrecondition,
                 "the volume that is set up is '{}' of driver '{}'", recorded.handle,
                 recorded.driver);
  }
  ASSIGN_OR_RETURN(const NodeCapabilities capabilities, client.GetCapabilities());
  if (!capabilities.expand) {
    return Error(StatusCode::kUnimplemented, "CSI driver '{}' grows nothing on the node",
                 volume.driver);
  }
  csi::v1::NodeExpandVolumeRequest request;
  request.set_volume_id(volume.handle);
  request.set_volume_path(GetPublishedPath(record).text());
  request.mutable_capacity_range()->set_required_bytes(bytes);
  *request.mutable_volume_capability() =
      csi_volume::MakeCapability(volume, capabilities, std::nullopt);
  if (volume.block) {
    request.set_staging_target_path(host_.paths().CsiBlockStaging(volume.name).text());
  } else if (capabilities.stage_unstage) {
    request.set_staging_target_path(
        host_.paths().CsiGlobalMount(volume.driver, api::VolumeHandle(volume.handle)).text());
  }
  ASSIGN_OR_RETURN(*request.mutable_secrets(), csi_volume::ReadSecret(host_, volume.expand_secret));
  return request;
}

// The driver has enlarged the device; the handler must grow the file system on it.
Status GrowInSandbox(csi_volume::SandboxHandler& handler,
                     const csi::v1::NodeExpandVolumeResponse& answer, const Volume& volume,
                     int64_t bytes) {
  const std::string context = fmt::format("grow volume '{}' to {} bytes", volume.name, bytes);
  if (answer.source().empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "{}: the driver does not say which device the runtime handler is to grow",
                 context);
  }
  const auto capacity = handler.Expand(answer.source(), std::max(bytes, answer.capacity_bytes()));
  if (!capacity.ok()) return ToHandlerError(capacity.status(), volume.name);
  if (*capacity == 0 || *capacity >= bytes) return OkStatus();
  return Error(StatusCode::kInternal, "{}: the runtime handler says that the volume has {} bytes",
               context, *capacity);
}

Status CsiPlugin::Expand(const PodVolumeRecord& record, const VolumeSpec& spec, int64_t bytes) {
  if (spec.pv == nullptr) {
    return Error(StatusCode::kUnimplemented, "inline volume '{}' cannot grow", record.folder_name);
  }
  ASSIGN_OR_RETURN(const Volume volume, csi_volume::ReadVolume(spec, nullptr));
  ASSIGN_OR_RETURN(const auto client, drivers_.Get(volume.driver));
  auto request = MakeExpandRequest(record, volume, bytes, *client);
  if (!request.ok()) return ToRetryableError(request.status(), volume.name);
  std::unique_ptr<csi_volume::SandboxHandler> handler;
  if (record.sandbox.has_value()) {
    auto found = csi_volume::SandboxHandler::Connect(*record.sandbox);
    if (!found.ok()) return ToRetryableError(found.status(), volume.name);
    handler = *std::move(found);
    const auto can = handler->HasCapability(rpc::crust::RuntimeCapability::RPC::VOLUME_RESIZE);
    if (!can.ok()) return ToHandlerError(can.status(), volume.name);
    request->set_runtime_supports_expand(*can);
  }
  const auto answer = client->rpc().NodeExpandVolume(*request, kCsiTimeout);
  if (answer.ok() && handler != nullptr) {
    if (request->runtime_supports_expand()) {
      return GrowInSandbox(*handler, *answer, volume, bytes);
    }
    return Error(StatusCode::kFailedPrecondition,
                 "grow volume '{}': the runtime handler that has it mounted grows no file systems",
                 volume.name);
  }
  Status grown = answer.status();
  if (answer.ok() && answer->capacity_bytes() != 0 && answer->capacity_bytes() < bytes) {
    grown = Error(StatusCode::kInternal,
                  "NodeExpandVolume succeeded, but the driver says that the "
                  "volume has {} bytes",
                  answer->capacity_bytes());
  }
  return base::Annotate(grown, fmt::format("grow volume '{}' to {} bytes", volume.name, bytes));
}

StatusOr<csi::v1::NodeGetVolumeStatsResponse> CsiPlugin::AskStats(DriverClient& client,
                                                                  const Record& volume,
                                                                  const PodVolumeRecord& record,
                                                                  bool in_sandbox) {
  csi::v1::NodeGetVolumeStatsRequest request;
  request.set_volume_id(volume.handle);
  request.set_volume_path(GetPublishedPath(record).text());
  request.set_runtime_supports_stats(in_sandbox);
  return client.rpc().NodeGetVolumeStats(request, kCsiTimeout);
}

StatusOr<std::unique_ptr<csi_volume::SandboxHandler>> CsiPlugin::ConnectForStats(
    const PodVolumeRecord& record) const {
  ASSIGN_OR_RETURN(auto handler, csi_volume::SandboxHandler::Connect(*record.sandbox));
  ASSIGN_OR_RETURN(const bool can,
                   handler->HasCapability(rpc::crust::RuntimeCapability::RPC::VOLUME_STATS));
  if (can) return handler;
  return Error(StatusCode::kUnimplemented, "the runtime handler has no volume statistics");
}

Status CheckSource(const csi::v1::NodeGetVolumeStatsResponse& answer, const Record& volume) {
  if (!answer.source().empty()) return OkStatus();
  return Error(StatusCode::kFailedPrecondition,
               "CSI driver '{}' does not say of which device the runtime handler is to be asked",
               volume.driver);
}

StatusOr<VolumePlugin::Stats> CsiPlugin::GetStats(const PodVolumeRecord& record) {
  ASSIGN_OR_RETURN(const Record volume, csi_volume::ReadRecord(record.state));
  ASSIGN_OR_RETURN(const auto client, drivers_.Get(volume.driver));
  ASSIGN_OR_RETURN(const NodeCapabilities capabilities, client->GetCapabilities());
  if (!capabilities.volume_stats) {
    return Error(StatusCode::kUnimplemented, "CSI driver '{}' has no volume statistics",
                 volume.driver);
  }
  std::unique_ptr<csi_volume::SandboxHandler> handler;
  if (record.sandbox.has_value()) {
    ASSIGN_OR_RETURN(handler, ConnectForStats(record));
  }
  ASSIGN_OR_RETURN(const auto answer, AskStats(*client, volume, record, handler != nullptr));
  if (handler == nullptr) return csi_volume::StatsOfUsage(answer.usage());
  RETURN_IF_ERROR(CheckSource(answer, volume));
  return handler->GetStats(answer.source());
}

StatusOr<std::optional<VolumePlugin::Condition>> CsiPlugin::GetCondition(
    const PodVolumeRecord& record) {
  ASSIGN_OR_RETURN(const Record volume, csi_volume::ReadRecord(record.state));
  ASSIGN_OR_RETURN(const auto client, drivers_.Get(volume.driver));
  ASSIGN_OR_RETURN(const NodeCapabilities capabilities, client->GetCapabilities());
  if (record.sandbox.has_value()) {
    if (!capabilities.volume_stats) return std::optional<Condition>();
    const auto handler = ConnectForStats(record);
    if (handler.status().code() == StatusCode::kUnimplemented) return std::optional<Condition>();
    RETURN_IF_ERROR(handler);
    ASSIGN_OR_RETURN(const auto deferred, AskStats(*client, volume, record, /*in_sandbox=*/true));
    RETURN_IF_ERROR(CheckSource(deferred, volume));
    return (*handler)->GetCondition(deferred.source());
  }
  if (!capabilities.volume_condition) return std::optional<Condition>();
  ASSIGN_OR_RETURN(const auto answer, AskStats(*client, volume, record, /*in_sandbox=*/false));
  if (!answer.has_volume_condition()) return std::optional<Condition>();
  return std::optional(Condition{.abnormal = answer.volume_condition().abnormal(),
                                 .message = answer.volume_condition().message()});
}

}  // namespace

std::unique_ptr<VolumePlugin> NewCsiPlugin(Host& host) { return std::make_unique<CsiPlugin>(host); }

}  // namespace berth::volume
