#include "volume/flex/flex_devices.h"

#include <algorithm>
#include <set>

#include "base/ids.h"
#include "base/json.h"
#include "base/log.h"
#include "platform/file_systems/device_file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"
#include "volume/device_mounts.h"
#include "volume/flex/driver_options.h"
#include "volume/found_volumes.h"
#include "volume/volume_files.h"

namespace berth::volume {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::json::String;

constexpr int kMarkVersion = 1;

// A digest of the parts of the source that identify a volume. They do not depend on the pod, or on
// whether it may write.
std::string IdentityOf(const FlexSource& source) {
  Json options = Json::object();
  for (const auto& [key, value] : source.options) options[key] = value;
  return base::Sha256Hex(base::json::Dump({{"fsType", source.fs_type}, {"options", options}}));
}

struct Mark {
  std::string identity;
  std::string device;
};

// nullopt: there is no mark. DATA_LOSS: it is damaged.
StatusOr<std::optional<Mark>> ReadMark(const std::string& path) {
  const auto text = platform::ReadFile(path);
  if (text.status().code() == StatusCode::kNotFound) return std::optional<Mark>();
  RETURN_IF_ERROR(text);
  const auto json = platform::ParseRecordOrUnversioned(*text, kMarkVersion);
  RETURN_IF_ERROR_WITH(json, fmt::format("the mark of a device, {}", Quote(path)));
  return std::optional(
      Mark{.identity = String(*json, {"identity"}), .device = String(*json, {"device"})});
}

// Removes a mark whose volume is not mounted any more. A damaged one is set aside only now, because
// until then its volume counts as mounted.
Status RemoveMark(const std::string& path) {
  RETURN_IF_ERROR(platform::RemoveTornWritesOf(path));
  if (const Status read = ReadMark(path).status(); read.code() == StatusCode::kDataLoss) {
    ASSIGN_OR_RETURN(const std::string aside, platform::SetRecordAside(path));
    LOG_ERROR("{}; it is set aside as {}", base::Message(read), Quote(aside));
    return OkStatus();
  }
  return platform::RemoveDurably<"flex.device">(path);
}

Status WriteMark(const std::string& path, const Mark& mark) {
  RETURN_IF_ERROR(platform::MakeFolders(ParentOf(path), 0750));
  RETURN_IF_ERROR(platform::RemoveTornWritesOf(path));
  return platform::WriteDurably<"flex.device">(
      path, base::json::Dump(
                {{"version", kMarkVersion}, {"identity", mark.identity}, {"device", mark.device}}));
}

}  // namespace

platform::StagingPath FlexDevices::Folder(const api::VolumeName& volume) const {
  return host_.paths().FlexMount(versions_.driver(), volume);
}

// Whether the device is mounted. While pods use a mounted device it must be neither checked nor
// formatted. FAILED_PRECONDITION: it is no block device.
StatusOr<bool> FlexDevices::IsInUse(const std::string& device) const {
  ASSIGN_OR_RETURN(const auto found, host_.LookAtDevices({device}));
  if (!found.front().present || !found.front().block) {
    return Error(StatusCode::kFailedPrecondition, "{}, which driver '{}' attached, is no device",
                 Quote(device), versions_.driver());
  }
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  for (const platform::MountEntry& entry : table) {
    ASSIGN_OR_RETURN(const bool shown, ShowsDevice(host_, entry, found.front().number));
    if (shown) return true;
  }
  return false;
}

Status FlexDevices::MountPlainly(const std::string& device, const FlexSource& source,
                                 const platform::StagingPath& folder) {
  if (device.empty()) return OkStatus();
  ASSIGN_OR_RETURN(const bool in_use, IsInUse(device));
  ASSIGN_OR_RETURN(const std::string type, platform::ChooseFileSystemType(device, source.fs_type));
  if (!source.read_only && !in_use) {
    RETURN_IF_ERROR(platform::PrepareFileSystem(host_.exec(versions_.driver()), device, type));
  }
  return host_.mounter().Mount({.source = device,
                                .target = folder.text(),
                                .fs_type = type,
                                .options = {source.read_only ? "ro" : "rw"}});
}

Status FlexDevices::UnmountBy(const DriverVersion& version, const platform::StagingPath& folder) {
  // As in Kubernetes, the driver is not asked if nothing is mounted.
  ASSIGN_OR_RETURN(const bool mounted, points_.IsMounted(folder.text()));
  if (!mounted) return OkStatus();
  const Status unmounted = calls_.UnmountDevice(version, folder);
  if (unmounted.code() != StatusCode::kUnimplemented) return unmounted;
  return points_.UnmountPlainly(folder.text());
}

Status FlexDevices::Mount(const VolumeSpec& spec, const std::string& device) {
  ASSIGN_OR_RETURN(const FlexSource source, ReadFlexSource(spec));
  ASSIGN_OR_RETURN(const DriverOptions options, OptionsOf(spec));
  const api::VolumeName volume(spec.folder_name());
  const platform::StagingPath folder = Folder(volume);
  const std::string mark_path = host_.paths().FlexMark(versions_.driver(), volume);
  ASSIGN_OR_RETURN(const auto mark, ReadMark(mark_path));
  ASSIGN_OR_RETURN(const bool mounted, points_.IsMounted(folder.text()));
  if (mounted && !mark.has_value()) {
    return Error(StatusCode::kFailedPrecondition,
                 "this node agent did not make the mount at {}: unmount it", folder);
  }
  if (mark.has_value() && mark->identity != IdentityOf(source)) {
    return Error(StatusCode::kFailedPrecondition,
                 "another volume of driver '{}' with the name '{}' is in use on this node, and "
                 "Flexvolumes that are attached are known by their names: give one of them "
                 "another name",
                 versions_.driver(), volume.text());
  }
  const Status done = points_.Mount(
      folder.text(),
      [&](const DriverVersion& version) -> Status {
        RETURN_IF_ERROR(calls_.CheckVolumeName(version, options));
        auto waited = calls_.WaitForAttach(version, device, options);
        if (!waited.ok() && waited.status().code() != StatusCode::kUnimplemented) {
          return waited.status();
        }
        const std::string ready = waited.ok() ? *std::move(waited) : device;
        RETURN_IF_ERROR(WriteMark(mark_path, {.identity = IdentityOf(source), .device = ready}));
        const Status called = calls_.MountDevice(version, folder, ready, options);
        if (called.code() != StatusCode::kUnimplemented) return called;
        return MountPlainly(ready, source, folder);
      },
      [&](const DriverVersion& version) { return UnmountBy(version, folder); });
  if (!done.ok() && !MayHaveHappened(done) && !mark.has_value()) {
    const auto left = points_.IsMounted(folder.text());
    if (left.ok() && !*left) RETURN_IF_ERROR(RemoveMark(mark_path));
  }
  return done;
}

Status FlexDevices::Unmount(const api::VolumeName& volume,
                            const DriverVersionId& recorded_version) {
  const platform::StagingPath folder = Folder(volume);
  RETURN_IF_ERROR(
      points_.Unmount(folder.text(), recorded_version,
                      [&](const DriverVersion& version) { return UnmountBy(version, folder); }));
  return RemoveMark(host_.paths().FlexMark(versions_.driver(), volume));
}

Status FlexDevices::Forget(const api::VolumeName& volume) {
  RETURN_IF_ERROR(points_.RemoveMountPoint(Folder(volume).text()));
  return RemoveMark(host_.paths().FlexMark(versions_.driver(), volume));
}

StatusOr<std::string> FlexDevices::DeviceOf(const api::VolumeName& volume) const {
  ASSIGN_OR_RETURN(const auto mark, ReadMark(host_.paths().FlexMark(versions_.driver(), volume)));
  return mark.has_value() ? mark->device : "";
}

bool FlexDevices::IsKnown(const api::VolumeName& volume) const {
  const auto mark = ReadMark(host_.paths().FlexMark(versions_.driver(), volume));
  return !mark.ok() || mark->has_value();
}

StatusOr<std::vector<std::string>> FlexDevices::ListKnownVolumes() const {
  ASSIGN_OR_RETURN(const auto mounts, ListNames(host_.paths().FlexMounts(versions_.driver())));
  ASSIGN_OR_RETURN(const auto marks, ListNames(host_.paths().FlexMarks(versions_.driver())));
  std::set<std::string> volumes(mounts.begin(), mounts.end());
  for (const std::string& mark : marks) {
    if (!mark.ends_with(platform::kRecordSuffix) || platform::IsTornWrite(mark)) continue;
    volumes.insert(mark.substr(0, mark.size() - platform::kRecordSuffix.size()));
  }
  return std::vector<std::string>(volumes.begin(), volumes.end());
}

}  // namespace berth::volume
