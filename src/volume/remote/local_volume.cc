#include "volume/remote/local_volume.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "platform/file_systems/device_file_system.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/probe_folder.h"
#include "volume/device_mounts.h"
#include "volume/found_volumes.h"
#include "volume/volume_files.h"

namespace berth::volume {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::StatusCode;
using base::json::Bool;
using base::json::String;

constexpr int kMaxStackedMounts =
    16;  // a crash between mount and record may leave one on top of another

std::string DeviceNameOf(std::string_view pv) {
  return fmt::format("kubernetes.io/local-volume/{}", pv);
}

}  // namespace

bool LocalVolumePlugin::Supports(const VolumeSpec& spec) const {
  return spec.pv != nullptr && base::json::Find(spec.pv->json(), {"spec", "local"}) != nullptr;
}

StatusOr<std::optional<std::string>> LocalVolumePlugin::DeviceName(const VolumeSpec& spec) const {
  return std::optional(DeviceNameOf(spec.pv->name()));
}

StatusOr<Json> LocalVolumePlugin::DeviceState(const VolumeSpec& spec) const {
  return Json{{"block", spec.block()}};
}

StatusOr<Json> LocalVolumePlugin::PodState(const api::Pod&, const VolumeSpec&) const {
  return Json::object();
}

StatusOr<LocalVolumePlugin::Source> LocalVolumePlugin::FindSource(const VolumeSpec& spec) const {
  Source source{.path = String(spec.pv->json(), {"spec", "local", "path"}), .device = {}};
  RETURN_IF_ERROR(CheckHostPath("local.path", source.path));
  ASSIGN_OR_RETURN(const auto found, host_.LookAtDevices({source.path}));
  if (!found.front().present) {
    return Error(StatusCode::kNotFound, "there is nothing at {}, the path of local volume '{}'",
                 Quote(source.path), spec.pv->name());
  }
  if (found.front().block) {
    source.device = found.front().number;
    return source;
  }
  if (spec.block()) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} is no block device, which volumeMode Block of volume '{}' needs",
                 Quote(source.path), spec.pv->name());
  }
  RETURN_IF_ERROR_WITH(platform::ProbeFolder(source.path), "the volume's folder");
  return source;
}

// ---- the device

StatusOr<bool> LocalVolumePlugin::IsUsedByPods(const Source& source, const std::string& pv) const {
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  const std::string mounts = host_.paths().LocalMounts() + "/";
  const std::string own = host_.paths().LocalMount(pv);
  const std::string kubelet = host_.paths().root() + "/";
  bool bound = false;
  for (const platform::MountEntry& entry : table) {
    if (entry.mount_point == own) continue;
    ASSIGN_OR_RETURN(const bool shown, ShowsDevice(host_, entry, *source.device));
    if (!shown) continue;
    // Binds for pods are below the kubelet's folder.
    if (entry.mount_point.starts_with(mounts) || !entry.mount_point.starts_with(kubelet)) {
      return Error(StatusCode::kFailedPrecondition, "device {} is in use: it is mounted at {}",
                   Quote(source.path), Quote(entry.mount_point));
    }
    bound = true;
  }
  return bound;
}

StatusOr<const platform::MountEntry*> LocalVolumePlugin::FindDeviceMount(
    const std::vector<platform::MountEntry>& table, const Source& source,
    const std::string& target) const {
  const platform::MountEntry* entry = platform::FindMount(table, target);
  if (entry != nullptr) {
    ASSIGN_OR_RETURN(const bool shown, ShowsDevice(host_, *entry, *source.device));
    if (shown) return entry;
  }
  return Error(StatusCode::kFailedPrecondition, "device {} is not mounted at {}",
               Quote(source.path), Quote(target));
}

Status LocalVolumePlugin::MountDevice(const api::Pod&, const VolumeSpec& spec, const api::Labels&) {
  const std::string what = fmt::format("mount local volume '{}'", spec.pv->name());
  ASSIGN_OR_RETURN(const Source source, FindSource(spec));
  if (!source.device.has_value()) return OkStatus();
  const auto bound = IsUsedByPods(source, spec.pv->name());
  RETURN_IF_ERROR_WITH(bound, what);
  if (spec.block()) return OkStatus();
  const std::string target = host_.paths().LocalMount(spec.pv->name());
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  if (const platform::MountEntry* entry = platform::FindMount(table, target)) {
    ASSIGN_OR_RETURN(const bool shown, ShowsDevice(host_, *entry, *source.device));
    if (shown) return OkStatus();
    return Error(StatusCode::kFailedPrecondition,
                 "{}: another mount ({} from {}) stands at {}: unmount it", what, entry->fs_type,
                 Quote(entry->source), Quote(target));
  }
  const auto type = platform::ChooseFileSystemType(
      source.path, String(spec.pv->json(), {"spec", "local", "fsType"}));
  RETURN_IF_ERROR_WITH(type, what);
  // A mounted device must not be checked.
  if (!*bound)
    RETURN_IF_ERROR_WITH(platform::PrepareFileSystem(host_.exec(name()), source.path, *type), what);
  RETURN_IF_ERROR(platform::MakeFolders(target, 0750));
  const Status mounted = host_.mounter().Mount({.source = source.path,
                                                .target = target,
                                                .fs_type = *type,
                                                .options = spec.pv->mount_options()});
  return base::Annotate(mounted, what);
}

Status LocalVolumePlugin::UnmountDevice(const DeviceRecord& record) {
  const std::string target = host_.paths().LocalMount(record.pv_name);
  for (int i = 0; i < kMaxStackedMounts; ++i) {
    ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
    if (platform::FindMount(table, target) == nullptr) break;
    RETURN_IF_ERROR(host_.mounter().Unmount(target));
  }
  return RemoveEmptyFolder(target);
}

std::string LocalVolumePlugin::DevicePath(const DeviceRecord& record) const {
  return Bool(record.state, {"block"}) ? "" : host_.paths().LocalMount(record.pv_name);
}

// ---- for a pod

StatusOr<bool> LocalVolumePlugin::IsUsedByOthers(const api::VolumeName& pv,
                                                 const api::PodUid& pod) const {
  ASSIGN_OR_RETURN(const auto uids, ListNames(host_.paths().Pods()));
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  return std::any_of(uids.begin(), uids.end(), [&](const std::string& uid) {
    const api::PodUid other(uid);
    return other != pod &&
           platform::FindMount(table, host_.paths().PodVolume(other, name(), pv)) != nullptr;
  });
}

StatusOr<Published> LocalVolumePlugin::SetUp(const api::Pod& pod, const VolumeSpec& spec,
                                             const api::Labels&) {
  ASSIGN_OR_RETURN(const Source source, FindSource(spec));
  if (spec.block()) return binds_.BindDevice(pod, spec, source.path, *source.device);
  PodBinds::Source shown{.folder = source.path, .read_only = spec.read_only};
  if (source.device.has_value()) {
    shown.folder = host_.paths().LocalMount(spec.pv->name());
    ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
    RETURN_IF_ERROR(FindDeviceMount(table, source, shown.folder).status());
  }
  ASSIGN_OR_RETURN(shown.shared,
                   IsUsedByOthers(api::VolumeName(spec.pv->name()), api::PodUid(pod.uid())));
  return binds_.BindFolder(pod, spec, shown);
}

Status LocalVolumePlugin::TearDown(const PodVolumeRecord& record) { return binds_.Remove(record); }

// ---- size

Status LocalVolumePlugin::Expand(const PodVolumeRecord& record, const VolumeSpec& spec,
                                 int64_t bytes) {
  ASSIGN_OR_RETURN(const Source source, FindSource(spec));
  if (record.block || !source.device.has_value()) {
    return Error(StatusCode::kUnimplemented, "local volume '{}' has no file system of its own",
                 record.folder_name);
  }
  return GrowFileSystem(host_, host_.exec(name()),
                        {.device = source.path,
                         .mount_point = host_.paths().LocalMount(spec.pv->name()),
                         .bytes = bytes});
}

StatusOr<VolumePlugin::Stats> LocalVolumePlugin::GetStats(const PodVolumeRecord& record) {
  return binds_.GetStats(record);
}

// ---- the volumes on the node

StatusOr<VolumePlugin::Found> LocalVolumePlugin::FindOnNode() const {
  Found found;
  const auto add_device = [&](const std::string& pv, bool block) {
    found.devices.push_back({.plugin = std::string(name()),
                             .device_name = DeviceNameOf(pv),
                             .pv_name = pv,
                             .state = {{"block", block}}});
  };
  ASSIGN_OR_RETURN(const auto mounted, ListNames(host_.paths().LocalMounts()));
  for (const std::string& pv : mounted) add_device(pv, false);
  ASSIGN_OR_RETURN(found.pod_volumes, FindPodFolders(host_.paths(), name()));
  for (PodVolumeRecord& volume : found.pod_volumes) {
    volume.device_name = DeviceNameOf(volume.folder_name);
    volume.state = Json::object();
  }
  ASSIGN_OR_RETURN(auto published, binds_.FindDevices());
  std::set<std::string> blocks;
  for (PodVolumeRecord& volume : published) {
    volume.device_name = DeviceNameOf(volume.folder_name);
    if (blocks.insert(volume.folder_name).second) add_device(volume.folder_name, true);
    found.pod_volumes.push_back(std::move(volume));
  }
  return found;
}

}  // namespace berth::volume
