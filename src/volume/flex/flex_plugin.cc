#include "volume/flex/flex_plugin.h"

#include "api/kinds/attachable.h"
#include "api/quantity.h"
#include "base/log.h"
#include "platform/file_systems/file_system.h"
#include "platform/walks/usage.h"
#include "volume/flex/driver_options.h"
#include "volume/found_volumes.h"
#include "volume/volume_files.h"

namespace berth::volume {
namespace {

using base::Error;
using base::OkStatus;
using base::StatusCode;
using base::json::String;

// The state for tear-down (DeviceState, PodState).
DriverVersionId VersionIn(const Json& state) { return DriverVersionId(String(state, {"version"})); }

// record.pv_name is set only for a PersistentVolume, so the state holds the name of the volume.
api::VolumeName VolumeOf(const DeviceRecord& record) {
  std::string volume = String(record.state, {"volume"});
  return api::VolumeName(volume.empty() ? record.pv_name : volume);
}

std::string DeviceIn(const api::Labels& publish_context) {
  const auto device = publish_context.find(std::string(api::kDevicePath));
  return device == publish_context.end() ? "" : device->second;
}

}  // namespace

FlexPlugin::FlexPlugin(Host& host, std::shared_ptr<const FlexDriver> driver,
                       std::shared_ptr<DriverVersions> versions,
                       const DriverCalls::Deadlines& deadlines)
    : host_(host),
      versions_(host.paths(), std::move(driver), std::move(versions)),
      calls_(host.exec(versions_.driver()), deadlines),
      devices_(host, versions_, calls_),
      pod_volumes_(FlexFolder::kPodVolume, host, versions_) {}

bool FlexPlugin::Supports(const VolumeSpec& spec) const {
  return FlexDriverOf(spec) == name() && !spec.block();
}

StatusOr<bool> FlexPlugin::IsAttachable(const VolumeSpec& spec) const {
  // The marks that a removed driver left tell whether it attached.
  return versions_.Attaches([&] { return devices_.IsKnown(api::VolumeName(spec.folder_name())); });
}

StatusOr<std::optional<std::string>> FlexPlugin::DeviceName(const VolumeSpec& spec) const {
  // An attached inline volume is refused, because its name is unique only within its pod. It could
  // be taken for another pod's volume of the same name.
  if (spec.pv == nullptr) {
    ASSIGN_OR_RETURN(const bool attachable, IsAttachable(spec));
    if (!attachable) return std::optional<std::string>();
    return Error(StatusCode::kInvalidArgument,
                 "Flexvolume driver '{}' attaches its volumes to nodes, which needs a "
                 "PersistentVolume: name one by a claim",
                 name());
  }
  return std::optional(api::UniqueFlexName(name(), api::VolumeName(spec.folder_name())));
}

StatusOr<bool> FlexPlugin::NeedsAttach(const VolumeSpec& spec) const { return IsAttachable(spec); }

Json FlexPlugin::StateOf(const std::string& volume) const {
  const auto version = versions_.Current();
  const auto capabilities = versions_.capabilities();
  return {{"volume", volume},
          {"version", version.ok() ? version->id : ""},
          {"supportsMetrics", capabilities.has_value() && capabilities->supports_metrics}};
}

StatusOr<Json> FlexPlugin::DeviceState(const VolumeSpec& spec) const {
  return StateOf(spec.folder_name());
}

StatusOr<Json> FlexPlugin::PodState(const api::Pod&, const VolumeSpec& spec) const {
  return StateOf(spec.folder_name());
}

platform::TargetPath FlexPlugin::Folder(const PodVolumeRecord& record) const {
  return platform::TargetPath(host_.paths().PodVolume(api::PodUid(record.pod_uid), name(),
                                                      api::VolumeName(record.folder_name)));
}

// ---- the device

Status FlexPlugin::MountDevice(const api::Pod&, const VolumeSpec& spec,
                               const api::Labels& publish_context) {
  ASSIGN_OR_RETURN(const bool attachable, IsAttachable(spec));
  if (!attachable) return OkStatus();
  return devices_.Mount(spec, DeviceIn(publish_context));
}

Status FlexPlugin::UnmountDevice(const DeviceRecord& record) {
  return devices_.Unmount(VolumeOf(record), VersionIn(record.state));
}

std::string FlexPlugin::DevicePath(const DeviceRecord& record) const {
  return devices_.Folder(VolumeOf(record)).text();
}

Status FlexPlugin::ForgetDevice(const DeviceRecord& record) {
  return devices_.Forget(VolumeOf(record));
}

// ---- for a pod

Status FlexPlugin::BindDevice(const platform::TargetPath& folder, const VolumeSpec& spec) {
  ASSIGN_OR_RETURN(const FlexSource source, ReadFlexSource(spec));
  const platform::StagingPath device = devices_.Folder(api::VolumeName(spec.folder_name()));
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  if (platform::FindMount(table, device.text()) == nullptr) {
    return Error(StatusCode::kFailedPrecondition,
                 "Flexvolume driver '{}' does not support mount, and it mounted no device that "
                 "could be bound in place of it: nothing is mounted at {}",
                 name(), device);
  }
  platform::MountRequest bind{
      .source = device.text(), .target = folder.text(), .fs_type = "", .options = {"bind"}};
  if (source.read_only) bind.options.emplace_back("ro");
  return host_.mounter().Mount(bind);
}

Status FlexPlugin::MountForPod(const DriverVersion& version, const platform::TargetPath& folder,
                               const api::Pod& pod, const VolumeSpec& spec) {
  ASSIGN_OR_RETURN(const DriverOptions options, MountOptionsOf(host_, pod, spec));
  const Status mounted = calls_.Mount(version, folder, options);
  if (mounted.code() != StatusCode::kUnimplemented) return mounted;
  return BindDevice(folder, spec);
}

Status FlexPlugin::UnmountForPod(const DriverVersion& version, const platform::TargetPath& folder) {
  const Status unmounted = calls_.Unmount(version, folder);
  if (unmounted.code() != StatusCode::kUnimplemented) return unmounted;
  return pod_volumes_.UnmountPlainly(folder.text());
}

Status FlexPlugin::ApplyFsGroup(const api::Pod& pod, const VolumeSpec& spec,
                                const platform::TargetPath& folder) {
  const Status applied = ApplyPodFsGroup(host_, pod, folder.text());
  if (applied.ok() || applied.code() == base::StatusCode::kCancelled) return applied;
  // As in Kubernetes the pod goes on, because a server may refuse what the pod does not need.
  host_.events().Record(pod.reference(), base::EventType::kWarning, "FailedFsGroup",
                        fmt::format("volume '{}': {}", spec.name, base::ToString(applied)));
  return OkStatus();
}

StatusOr<Published> FlexPlugin::SetUp(const api::Pod& pod, const VolumeSpec& spec,
                                      const api::Labels& publish_context) {
  ASSIGN_OR_RETURN(const FlexSource source, ReadFlexSource(spec));
  const platform::TargetPath folder(
      host_.paths().PodVolume(api::PodUid(pod.uid()), name(), api::VolumeName(spec.folder_name())));
  ASSIGN_OR_RETURN(const bool mounted, pod_volumes_.IsMounted(folder.text()));
  if (!mounted) {
    // When MountDevice was called, the driver may have been one that does not attach.
    RETURN_IF_ERROR(MountDevice(pod, spec, publish_context));
  }
  RETURN_IF_ERROR(pod_volumes_.Mount(
      folder.text(),
      [&](const DriverVersion& version) { return MountForPod(version, folder, pod, spec); },
      [&](const DriverVersion& version) { return UnmountForPod(version, folder); }));
  const DriverCapabilities capabilities = versions_.capabilities().value_or(DriverCapabilities());
  if (capabilities.fs_group && !source.read_only) {
    RETURN_IF_ERROR(ApplyFsGroup(pod, spec, folder));
  }
  return Published{
      .path = folder.text(),
      .read_only = source.read_only,
      .selinux_relabel = capabilities.selinux_relabel && host_.selinux() && !source.read_only};
}

Status FlexPlugin::TearDown(const PodVolumeRecord& record) {
  const platform::TargetPath folder = Folder(record);
  return pod_volumes_.Unmount(
      folder.text(), VersionIn(record.state),
      [&](const DriverVersion& version) { return UnmountForPod(version, folder); });
}

// ---- size

Status FlexPlugin::GrowPlainly(const std::string& device, const platform::MountPoint& folder) {
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  const platform::MountEntry* entry = platform::FindMount(table, folder.text());
  if (device.empty() || entry == nullptr) {
    return Error(StatusCode::kUnimplemented, "volumes of driver '{}' have no device to grow on",
                 name());
  }
  const platform::FileSystem* fs = platform::FindFileSystem(entry->fs_type);
  if (fs == nullptr) {
    return Error(StatusCode::kUnimplemented, "a file system of type {} does not grow",
                 entry->fs_type);
  }
  return fs->Resize(host_.exec(name()), device, folder);
}

Status FlexPlugin::Expand(const PodVolumeRecord& record, const VolumeSpec& spec, int64_t bytes) {
  const auto capabilities = versions_.capabilities();
  if (spec.pv == nullptr || (capabilities.has_value() && !capabilities->requires_fs_resize)) {
    return Error(StatusCode::kUnimplemented, "volume '{}' does not grow on the node",
                 record.folder_name);
  }
  ASSIGN_OR_RETURN(const bool attachable, IsAttachable(spec));
  ASSIGN_OR_RETURN(const DriverVersion version, versions_.Current());
  ASSIGN_OR_RETURN(const DriverOptions options, OptionsOf(spec));
  const api::VolumeName volume(spec.folder_name());
  ASSIGN_OR_RETURN(const std::string device, devices_.DeviceOf(volume));
  const auto old_bytes = spec.claim != nullptr ? api::ParseBytes(spec.claim->capacity()) : 0;
  const DriverCalls::Growth growth{
      .folder = attachable ? devices_.Folder(volume).text() : Folder(record).text(),
      .new_bytes = bytes,
      .old_bytes = old_bytes.ok() ? *old_bytes : 0};
  const Status grown = calls_.ExpandFs(version, options, device, growth);
  if (grown.code() != StatusCode::kUnimplemented) return grown;
  return GrowPlainly(device, platform::MountPoint(growth.folder));
}

StatusOr<VolumePlugin::Stats> FlexPlugin::GetStats(const PodVolumeRecord& record) {
  const auto capabilities = versions_.capabilities();
  const bool supported = capabilities.has_value()
                             ? capabilities->supports_metrics
                             : base::json::Bool(record.state, {"supportsMetrics"});
  if (!supported) {
    return Error(StatusCode::kUnimplemented, "Flexvolume driver '{}' has no volume statistics",
                 name());
  }
  const platform::TargetPath folder = Folder(record);
  ASSIGN_OR_RETURN(const bool mounted, pod_volumes_.IsMounted(folder.text()));
  if (!mounted) {
    return Error(StatusCode::kFailedPrecondition, "nothing is mounted at {}", folder);
  }
  ASSIGN_OR_RETURN(const platform::FileSystemUsage usage,
                   platform::GetFileSystemUsage(folder.text()));
  return StatsOf(usage);
}

// ---- the volumes on the node

StatusOr<VolumePlugin::Found> FlexPlugin::FindOnNode() const {
  Found found;
  ASSIGN_OR_RETURN(const auto volumes, devices_.ListKnownVolumes());
  for (const std::string& volume : volumes) {
    found.devices.push_back({.plugin = std::string(name()),
                             .device_name = api::UniqueFlexName(name(), api::VolumeName(volume)),
                             .pv_name = "",
                             .state = {{"volume", volume}}});
  }
  ASSIGN_OR_RETURN(found.pod_volumes, FindPodFolders(host_.paths(), name()));
  for (PodVolumeRecord& volume : found.pod_volumes) {
    volume.state = Json::object();
    if (devices_.IsKnown(api::VolumeName(volume.folder_name))) {
      volume.device_name = api::UniqueFlexName(name(), api::VolumeName(volume.folder_name));
    }
  }
  return found;
}

}  // namespace berth::volume
