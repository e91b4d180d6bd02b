#include "volume/remote/disk_plugin.h"

#include <algorithm>
#include <thread>

#include "base/log.h"
#include "platform/file_systems/device_file_system.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "volume/device_mounts.h"
#include "volume/found_volumes.h"
#include "volume/volume_files.h"

namespace berth::volume {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::StatusCode;

constexpr int kMaxStackedOnDisk =
    16;  // a crash between mount and record may leave one on top of another

}  // namespace

bool DiskPlugin::Supports(const VolumeSpec& spec) const {
  if (spec.pv == nullptr) return spec.pod_volume.source_type() == source_type_;
  return base::json::Find(spec.pv->json(), {"spec", source_type_}) != nullptr;
}

const Json& DiskPlugin::Source(const VolumeSpec& spec) const {
  if (spec.pv != nullptr) return base::json::Map(spec.pv->json(), {"spec", source_type_});
  return base::json::Map(spec.pod_volume.json(), {source_type_});
}

bool DiskPlugin::IsReadOnly(const VolumeSpec& spec) const {
  return spec.read_only || base::json::Bool(Source(spec), {"readOnly"});
}

std::string DiskPlugin::DeviceNameOf(const VolumeSpec& spec, const Disk& disk) const {
  if (spec.pv != nullptr) return fmt::format("{}/{}", name_, disk.identity);
  return fmt::format("{}/{}/{}", name_, spec.pod_ns, disk.identity);
}

StatusOr<platform::CommandResult> DiskPlugin::Run(const platform::Command& command) {
  auto result = exec().Run(command);
  if (result.status().code() != StatusCode::kNotFound) return result;
  return Error(StatusCode::kNotFound,
               "no {} where it was run: install it on the node, or deploy a pod that has it and "
               "registers for '{}' ({})",
               command.argv.front(), name_, base::Message(result.status()));
}

StatusOr<std::string> DiskPlugin::RunUtility(const platform::Command& command) {
  ASSIGN_OR_RETURN(platform::CommandResult result, Run(command));
  if (result.exit_code != 0) return platform::ExitFailure(command, result);
  return std::move(result.out);
}

platform::StagingPath DiskPlugin::MountOf(std::string_view device_name) const {
  return host_.paths().DiskMount(name_, DiskMarks::DigestOf(device_name));
}

StatusOr<std::optional<std::string>> DiskPlugin::DeviceName(const VolumeSpec& spec) const {
  ASSIGN_OR_RETURN(const Disk disk, ReadDisk(spec));
  return std::optional(DeviceNameOf(spec, disk));
}

StatusOr<Json> DiskPlugin::DeviceState(const VolumeSpec& spec) const {
  return Json{{"block", spec.block()}};
}

StatusOr<Json> DiskPlugin::PodState(const api::Pod&, const VolumeSpec&) const {
  return Json::object();
}

Status DiskPlugin::WriteFile(const std::string& path, const std::string& text) {
  return RunUtility({.argv = {"sh", "-c", R"(printf %s "$1" >"$2")", "sh", text, path},
                     .timeout = kLocalTime})
      .status();
}

// ---- the device

StatusOr<dev_t> DiskPlugin::WaitForDevice(const std::string& device) const {
  const auto deadline = std::chrono::steady_clock::now() + kAppearTime;
  while (true) {
    ASSIGN_OR_RETURN(const auto found, host_.LookAtDevices({device}));
    if (found.front().block) return found.front().number;
    if (std::chrono::steady_clock::now() >= deadline || host_.ending()) {
      return Error(StatusCode::kUnavailable,
                   "the disk is mapped as {}, but no such block device has appeared on the host "
                   "within {} s: the pod that maps must have the host's /dev",
                   Quote(device), kAppearTime.count());
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

Status DiskPlugin::CheckUse(const VolumeSpec& spec, const std::string& device) const {
  ASSIGN_OR_RETURN(const auto all, marks_.List());
  for (const DiskMark& other : all) {
    if (other.device != device || other.block == spec.block()) continue;
    return Error(StatusCode::kFailedPrecondition, "device {} is in use on this node as {}, by {}",
                 Quote(device), other.block ? "a raw device" : "a file system",
                 Quote(other.device_name));
  }
  return OkStatus();
}

StatusOr<std::string> DiskPlugin::Map(const api::Pod& pod, const VolumeSpec& spec,
                                      const Disk& disk) {
  const std::string device_name = DeviceNameOf(spec, disk);
  ASSIGN_OR_RETURN(auto mark, marks_.Read(device_name));
  if (!mark.has_value()) {
    mark = DiskMark{.device_name = device_name,
                    .pv_name = spec.pv != nullptr ? spec.pv->name() : "",
                    .block = spec.block(),
                    .device = "",
                    .logged_in = false,
                    .state = disk.state};
    RETURN_IF_ERROR(marks_.Write(*mark));
  }
  ASSIGN_OR_RETURN(std::string device, MapDisk(pod, spec, disk, *mark));
  if (mark->device != device) {
    mark->device = device;
    RETURN_IF_ERROR(marks_.Write(*mark));
    LOG_INFO("{} is mapped as {}", device_name, device);
  }
  return device;
}

Status DiskPlugin::MountFileSystem(const VolumeSpec& spec, const Disk& disk,
                                   const std::string& device,
                                   const platform::StagingPath& staging) {
  ASSIGN_OR_RETURN(const dev_t number, WaitForDevice(device));
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  bool in_use = false;
  for (const platform::MountEntry& entry : table) {
    ASSIGN_OR_RETURN(const bool shown, ShowsDevice(host_, entry, number));
    if (!shown) continue;
    // Binds for pods are below the kubelet's folder.
    if (entry.mount_point.starts_with(host_.paths().DiskMounts(name_) + "/") ||
        !entry.mount_point.starts_with(host_.paths().root() + "/")) {
      return Error(StatusCode::kFailedPrecondition, "device {} is in use: it is mounted at {}",
                   Quote(device), Quote(entry.mount_point));
    }
    in_use = true;  // pods still have it bound, so it must not be checked
  }
  ASSIGN_OR_RETURN(const std::string type, platform::ChooseFileSystemType(device, disk.fs_type));
  if (!disk.read_only && !in_use) {
    RETURN_IF_ERROR(platform::PrepareFileSystem(exec(), device, type));
  }
  HelperMount mount{.plugin = std::string(name_),
                    .fs_type = type,
                    .source = device,
                    .target = staging.text(),
                    .options = {disk.read_only ? "ro" : "rw"}};
  if (spec.pv != nullptr) {
    for (std::string& option : spec.pv->mount_options()) mount.options.push_back(std::move(option));
  }
  RETURN_IF_ERROR(platform::MakeFolders(staging.text(), 0750));
  return host_.helper_mounts().Mount(mount);
}

Status DiskPlugin::MountDevice(const api::Pod& pod, const VolumeSpec& spec, const api::Labels&) {
  const std::string what = fmt::format("{} volume '{}'", source_type_, spec.folder_name());
  ASSIGN_OR_RETURN(const Disk disk, ReadDisk(spec));
  const platform::StagingPath staging = MountOf(DeviceNameOf(spec, disk));
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  const platform::MountEntry* entry = platform::FindMount(table, staging.text());
  if (entry != nullptr && !spec.block()) {
    if (disk.read_only || !entry->read_only()) return OkStatus();
    return Error(StatusCode::kFailedPrecondition,
                 "{}: pods of this node use the disk read-only, and this pod would write", what);
  }
  const auto device = Map(pod, spec, disk);
  RETURN_IF_ERROR_WITH(device, what);
  RETURN_IF_ERROR_WITH(CheckUse(spec, *device), what);
  if (spec.block()) return base::Annotate(WaitForDevice(*device).status(), what);
  return base::Annotate(MountFileSystem(spec, disk, *device, staging), what);
}

Status DiskPlugin::UnmountAll(const platform::StagingPath& staging) {
  // Unmount is called at least once, because the way of the mount may be on record without it.
  for (int i = 0; i < kMaxStackedOnDisk; ++i) {
    RETURN_IF_ERROR(host_.helper_mounts().Unmount(name_, platform::MountPoint(staging.text())));
    ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
    if (platform::FindMount(table, staging.text()) == nullptr) break;
  }
  return RemoveEmptyFolder(staging.text());
}

Status DiskPlugin::UnmountDevice(const DeviceRecord& record) {
  RETURN_IF_ERROR(UnmountAll(MountOf(record.device_name)));
  ASSIGN_OR_RETURN(const auto mark, marks_.Read(record.device_name));
  if (!mark.has_value()) return OkStatus();
  RETURN_IF_ERROR_WITH(UnmapDisk(*mark), fmt::format("unmap {}", Quote(record.device_name)));
  LOG_INFO("{} is unmapped", record.device_name);
  return marks_.Remove(record.device_name);
}

std::string DiskPlugin::DevicePath(const DeviceRecord& record) const {
  return base::json::Bool(record.state, {"block"}) ? "" : MountOf(record.device_name).text();
}

Status DiskPlugin::ForgetDevice(const DeviceRecord& record) {
  RETURN_IF_ERROR(UnmountAll(MountOf(record.device_name)));
  return marks_.Remove(record.device_name);
}

// ---- for a pod

StatusOr<bool> DiskPlugin::IsUsedByOthers(const platform::StagingPath& staging,
                                          const api::PodUid& pod) const {
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  const platform::MountEntry* own = platform::FindMount(table, staging.text());
  const std::string pods = host_.paths().Pods() + "/", of_pod = pods + pod.text() + "/";
  return own != nullptr &&
         std::any_of(table.begin(), table.end(), [&](const platform::MountEntry& entry) {
           return entry.major == own->major && entry.minor == own->minor &&
                  entry.mount_point.starts_with(pods) && !entry.mount_point.starts_with(of_pod);
         });
}

StatusOr<Published> DiskPlugin::SetUp(const api::Pod& pod, const VolumeSpec& spec,
                                      const api::Labels&) {
  ASSIGN_OR_RETURN(const Disk disk, ReadDisk(spec));
  const std::string device_name = DeviceNameOf(spec, disk);
  if (spec.block()) {
    ASSIGN_OR_RETURN(const auto mark, marks_.Read(device_name));
    if (!mark.has_value() || mark->device.empty()) {
      return Error(StatusCode::kFailedPrecondition, "the disk {} is not mapped",
                   Quote(disk.identity));
    }
    ASSIGN_OR_RETURN(const dev_t number, WaitForDevice(mark->device));
    return binds_.BindDevice(pod, spec, mark->device, number);
  }
  const platform::StagingPath staging = MountOf(device_name);
  PodBinds::Source source{.folder = staging.text(), .read_only = disk.read_only};
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  if (platform::FindMount(table, source.folder) == nullptr) {
    return Error(StatusCode::kFailedPrecondition, "the disk {} is not mounted at {}",
                 Quote(disk.identity), Quote(source.folder));
  }
  ASSIGN_OR_RETURN(source.shared, IsUsedByOthers(staging, api::PodUid(pod.uid())));
  return binds_.BindFolder(pod, spec, source);
}

// ---- size

Status DiskPlugin::Expand(const PodVolumeRecord& record, const VolumeSpec& spec, int64_t bytes) {
  if (record.block) {
    return Error(StatusCode::kUnimplemented, "{} volume '{}' has no file system", source_type_,
                 record.folder_name);
  }
  ASSIGN_OR_RETURN(const auto mark, marks_.Read(record.device_name));
  if (!mark.has_value() || mark->device.empty()) {
    return Error(StatusCode::kFailedPrecondition, "{} volume '{}' is not mapped", source_type_,
                 spec.folder_name());
  }
  return GrowFileSystem(
      host_, exec(),
      {.device = mark->device, .mount_point = MountOf(record.device_name).text(), .bytes = bytes});
}

// ---- the volumes on the node

StatusOr<VolumePlugin::Found> DiskPlugin::FindOnNode() const {
  Found found;
  RETURN_IF_ERROR(marks_.RemoveTornMarks());
  ASSIGN_OR_RETURN(const auto marks, marks_.List());
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  for (const DiskMark& mark : marks) {
    found.devices.push_back({.plugin = std::string(name_),
                             .device_name = mark.device_name,
                             .pv_name = mark.pv_name,
                             .state = {{"block", mark.block}}});
  }
  const auto disk_at = [&](const std::string& folder) -> std::string {
    const platform::MountEntry* bind = platform::FindMount(table, folder);
    for (const DiskMark& mark : marks) {
      const platform::MountEntry* own =
          platform::FindMount(table, MountOf(mark.device_name).text());
      if (bind != nullptr && own != nullptr && bind->major == own->major &&
          bind->minor == own->minor) {
        return mark.device_name;
      }
    }
    return "";
  };
  ASSIGN_OR_RETURN(found.pod_volumes, FindPodFolders(host_.paths(), name_));
  for (PodVolumeRecord& volume : found.pod_volumes) {
    volume.device_name =
        disk_at(binds_.Folder(api::PodUid(volume.pod_uid), api::VolumeName(volume.folder_name)));
    volume.state = Json::object();
  }
  ASSIGN_OR_RETURN(auto published, binds_.FindDevices());
  for (PodVolumeRecord& volume : published) {
    const auto mark = std::find_if(marks.begin(), marks.end(), [&](const DiskMark& mark) {
      return mark.block && mark.pv_name == volume.folder_name;
    });
    if (mark != marks.end()) volume.device_name = mark->device_name;
    found.pod_volumes.push_back(std::move(volume));
  }
  return found;
}

}  // namespace berth::volume
