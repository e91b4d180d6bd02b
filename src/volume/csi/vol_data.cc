#include "volume/csi/vol_data.h"

#include <unistd.h>

#include <cerrno>

#include "api/kinds/csi_names.h"
#include "base/log.h"
#include "platform/files/durable_file.h"
#include "volume/volume_files.h"

namespace berth::volume::csi_volume {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

constexpr std::string_view kFile = "vol_data.json";
constexpr size_t kMaxBytes = 64 * 1024;

std::string GetFilePath(const std::string& folder) { return fmt::format("{}/{}", folder, kFile); }

constexpr const char* kSELinuxKey = "seLinuxMountContext";

void AddSELinuxContext(const Volume& volume, Json& data) {
  if (!volume.selinux_context.empty()) data[kSELinuxKey] = volume.selinux_context;
}

std::string DescribeMount(const platform::MountEntry& mount) {
  return fmt::format("{} from {}", mount.fs_type, Quote(mount.source));
}

}  // namespace

StatusOr<std::optional<Json>> ReadVolData(const std::string& folder) {
  const auto text = platform::ReadFile(GetFilePath(folder), kMaxBytes);
  if (text.status().code() == StatusCode::kNotFound) return std::optional<Json>();
  RETURN_IF_ERROR_WITH(text, fmt::format("read {}", Quote(GetFilePath(folder))));
  auto data = base::json::Parse(*text);
  if (!data.ok()) {
    return Error(StatusCode::kDataLoss, "read {}: {}", Quote(GetFilePath(folder)),
                 base::Message(data.status()));
  }
  return std::optional<Json>(*std::move(data));
}

Json MakePodVolData(const Volume& volume, const api::NodeName& node) {
  Json data = {{"specVolID", volume.name},
               {"volumeHandle", volume.handle},
               {"driverName", volume.driver},
               {"nodeName", node.text()},
               {"attachmentID",
                api::VolumeAttachmentName(api::VolumeHandle(volume.handle), volume.driver, node)}};
  if (!volume.block) data["volumeLifecycleMode"] = volume.ephemeral ? "Ephemeral" : "Persistent";
  AddSELinuxContext(volume, data);
  return data;
}

Json MakeDeviceVolData(const Volume& volume) {
  Json data = {{"volumeHandle", volume.handle}, {"driverName", volume.driver}};
  AddSELinuxContext(volume, data);
  return data;
}

std::string SELinuxContextOf(const Json& vol_data) {
  return base::json::String(vol_data, {kSELinuxKey});
}

namespace {

// `Path` is the type of a staging path or of a target path.
template <typename Path>
StatusOr<Finding> InspectMount(platform::Mounter& mounter, const std::string& folder,
                               const Path& mount_point, std::string_view driver,
                               const api::VolumeHandle& handle) {
  ASSIGN_OR_RETURN(const auto table, mounter.List());
  const platform::MountEntry* mount = platform::FindMount(table, mount_point.text());
  const auto data = ReadVolData(folder);
  if (!data.ok()) {
    if (data.status().code() != StatusCode::kDataLoss) return data.status();
    if (mount == nullptr) return Finding{.damaged = true};
    return Error(StatusCode::kFailedPrecondition,
                 "{} is mounted at {} and its record cannot be read: {}", DescribeMount(*mount),
                 mount_point, base::Message(data.status()));
  }
  if (!data->has_value()) {
    if (mount == nullptr) return Finding{};
    return Error(
        StatusCode::kFailedPrecondition,
        "{} is mounted at {} without a {} that names its volume: check it, and unmount it if it is "
        "not needed",
        DescribeMount(*mount), mount_point, kFile);
  }
  const std::string found_driver = base::json::String(**data, {"driverName"});
  const std::string found_handle = base::json::String(**data, {"volumeHandle"});
  if (found_driver != driver || found_handle != handle.text()) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} belongs to volume {} of driver {}, not to volume {} of driver {}",
                 Quote(folder), Quote(found_handle), Quote(found_driver), handle, Quote(driver));
  }
  return Finding{.recorded = true, .mounted = mount != nullptr};
}

}  // namespace

StatusOr<Finding> InspectFolder(platform::Mounter& mounter, const std::string& folder,
                                const platform::StagingPath& staging, std::string_view driver,
                                const api::VolumeHandle& handle) {
  return InspectMount(mounter, folder, staging, driver, handle);
}

StatusOr<Finding> InspectFolder(platform::Mounter& mounter, const std::string& folder,
                                const platform::TargetPath& target, std::string_view driver,
                                const api::VolumeHandle& handle) {
  return InspectMount(mounter, folder, target, driver, handle);
}

Status WriteVolData(const std::string& folder, const Json& data) {
  const auto present = ReadVolData(folder);
  if (present.ok() && present->has_value() && **present == data) return base::OkStatus();
  RETURN_IF_ERROR(platform::MakeFolders(folder, 0750));
  return platform::WriteDurably<"volume.vol_data">(GetFilePath(folder), base::json::Dump(data),
                                                   0600);
}

bool NamesAnother(const std::string& folder, const Record& record) {
  const auto data = ReadVolData(folder);
  if (!data.ok() || !data->has_value()) return false;
  return base::json::String(**data, {"driverName"}) != record.driver ||
         base::json::String(**data, {"volumeHandle"}) != record.handle;
}

Status RemoveVolData(const std::string& folder) {
  if (access(folder.c_str(), F_OK) != 0 && errno == ENOENT) return base::OkStatus();
  RETURN_IF_ERROR(platform::RemoveDurably<"volume.vol_data">(GetFilePath(folder)));
  RETURN_IF_ERROR(platform::RemoveTornWrites(folder));
  return RemoveEmptyFolder(folder);
}

Status CheckUnmounted(platform::Mounter& mounter, const std::string& path, std::string_view after) {
  ASSIGN_OR_RETURN(const auto table, mounter.List());
  return CheckUnmounted(table, path, after);
}

Status CheckUnmounted(const std::vector<platform::MountEntry>& table, const std::string& path,
                      std::string_view after) {
  const platform::MountEntry* mount = platform::FindMount(table, path);
  if (mount == nullptr) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition,
               "{} succeeded, but {} is still a mount point ({}): nothing below it is removed",
               after, Quote(path), DescribeMount(*mount));
}

namespace {

bool ShowSameFiles(const platform::MountEntry& a, const platform::MountEntry& b) {
  return a.major == b.major && a.minor == b.minor && a.root == b.root && a.source == b.source;
}

// The folder with the record of the volume at `mount_point`; empty if that is no path of a CSI
// volume.
std::string_view FindRecordFolder(const Paths& paths, std::string_view mount_point) {
  const size_t slash = mount_point.rfind('/');
  const std::string_view last = mount_point.substr(slash + 1);
  const bool ours = mount_point.starts_with(paths.root() + "/");
  return ours && (last == "globalmount" || last == "mount") ? mount_point.substr(0, slash) : "";
}

// The handle of another volume whose mount point shows the same files; empty if there is none.
std::string FindOtherVolume(const std::vector<platform::MountEntry>& table, const Paths& paths,
                            const platform::MountEntry& mount, const Expected& expected) {
  for (const platform::MountEntry& other : table) {
    if (&other == &mount || !ShowSameFiles(other, mount)) continue;
    const std::string_view folder = FindRecordFolder(paths, other.mount_point);
    if (folder.empty()) continue;
    const auto data = ReadVolData(std::string(folder));
    if (!data.ok() || !data->has_value()) continue;
    std::string handle = base::json::String(**data, {"volumeHandle"});
    if (handle != expected.handle ||
        base::json::String(**data, {"driverName"}) != expected.driver) {
      return handle;
    }
  }
  return "";
}

}  // namespace

Status MakeReadOnly(platform::Mounter& mounter, const std::string& path) {
  ASSIGN_OR_RETURN(const auto table, mounter.List());
  const platform::MountEntry* mount = platform::FindMount(table, path);
  if (mount == nullptr || mount->read_only()) return base::OkStatus();
  // The flags of a mount are set together, so those that it has are given again.
  std::vector<std::string> options = {"remount", "bind", "ro"};
  for (const std::string& option : mount->options) {
    if (option != "rw") options.push_back(option);
  }
  RETURN_IF_ERROR(mounter.Mount({.source = "", .target = path, .options = std::move(options)}));
  LOG_INFO("the mount at {} is made read-only, because its driver had mounted it writable",
           Quote(path));
  return base::OkStatus();
}

Status CheckMounted(platform::Mounter& mounter, const Paths& paths, const std::string& path,
                    const Expected& expected) {
  ASSIGN_OR_RETURN(const auto table, mounter.List());
  const platform::MountEntry* mount = platform::FindMount(table, path);
  if (mount == nullptr) {
    if (!expected.mounted) return base::OkStatus();
    return Error(StatusCode::kFailedPrecondition,
                 "{} succeeded, but nothing is mounted at {}: data written there would go to this "
                 "node's own disk",
                 expected.after, Quote(path));
  }
  if (expected.read_only && !mount->read_only()) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} succeeded, but {} is writable where it was asked to be read-only",
                 expected.after, Quote(path));
  }
  if (!expected.alone) return base::OkStatus();
  const std::string other = FindOtherVolume(table, paths, *mount, expected);
  if (other.empty()) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition,
               "{} of volume {} succeeded, but the mount at {} is volume {}", expected.after,
               Quote(expected.handle), Quote(path), Quote(other));
}

}  // namespace berth::volume::csi_volume
