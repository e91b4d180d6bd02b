#include "volume/csi/vol_data.h"

#include <unistd.h>

#include <cerrno>

#include "api/csi_names.h"
#include "base/log.h"
#include "platform/durable_file.h"
#include "platform/errno.h"

namespace berth::volume::csi_volume {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

constexpr std::string_view kFile = "vol_data.json";
constexpr size_t kMaxBytes = 64 * 1024;

std::string FileIn(const std::string& folder) { return fmt::format("{}/{}", folder, kFile); }

std::string Describe(const platform::MountEntry& mount) {
  return fmt::format("{} from {}", mount.fs_type, Quote(mount.source));
}

}  // namespace

StatusOr<std::optional<Json>> ReadVolData(const std::string& folder) {
  const auto text = platform::ReadFile(FileIn(folder), kMaxBytes);
  if (text.status().code() == StatusCode::kNotFound) return std::optional<Json>();
  RETURN_IF_ERROR_WITH(text, fmt::format("read {}", Quote(FileIn(folder))));
  auto data = base::json::Parse(*text);
  RETURN_IF_ERROR_WITH(data, fmt::format("read {}", Quote(FileIn(folder))));
  return std::optional<Json>(*std::move(data));
}

Json PodVolData(const Volume& volume, const std::string& node) {
  Json data = {{"specVolID", volume.name},
               {"volumeHandle", volume.handle},
               {"driverName", volume.driver},
               {"nodeName", node},
               {"attachmentID", api::VolumeAttachmentName(volume.handle, volume.driver, node)}};
  if (!volume.block) data["volumeLifecycleMode"] = volume.ephemeral ? "Ephemeral" : "Persistent";
  return data;
}

Json DeviceVolData(const Volume& volume) {
  return {{"volumeHandle", volume.handle}, {"driverName", volume.driver}};
}

StatusOr<Finding> Inspect(platform::Mounter& mounter, const std::string& folder,
                          const std::string& mount_point, std::string_view driver,
                          std::string_view handle) {
  ASSIGN_OR_RETURN(const auto table, mounter.List());
  const platform::MountEntry* mount = platform::FindMount(table, mount_point);
  const auto data = ReadVolData(folder);
  if (!data.ok()) {
    // Written whole or not at all, so that this is damage. Without a mount nothing depends on it.
    if (mount == nullptr) return Finding{};
    return Error(StatusCode::kFailedPrecondition,
                 "{} is mounted at {} and its record cannot be read: {}", Describe(*mount),
                 Quote(mount_point), base::Message(data.status()));
  }
  if (!data->has_value()) {
    if (mount == nullptr) return Finding{};
    return Error(
        StatusCode::kFailedPrecondition,
        "{} is mounted at {} without a {} that says what it is: look at it, and unmount it "
        "if it is not needed",
        Describe(*mount), Quote(mount_point), kFile);
  }
  const std::string found_driver = base::json::String(**data, {"driverName"});
  const std::string found_handle = base::json::String(**data, {"volumeHandle"});
  if (found_driver != driver || found_handle != handle) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} belongs to volume {} of driver {}, not to volume {} of driver {}",
                 Quote(folder), Quote(found_handle), Quote(found_driver), Quote(handle),
                 Quote(driver));
  }
  return Finding{.recorded = true, .mounted = mount != nullptr};
}

Status WriteVolData(const std::string& folder, const Json& data) {
  const auto present = ReadVolData(folder);
  if (present.ok() && present->has_value() && **present == data) return base::OkStatus();
  RETURN_IF_ERROR(platform::MakeFolders(folder, 0750));
  return platform::WriteDurably<"volume.vol_data">(FileIn(folder), base::json::Dump(data), 0600);
}

Status RemoveVolData(const std::string& folder) {
  if (access(folder.c_str(), F_OK) != 0 && errno == ENOENT) return base::OkStatus();
  RETURN_IF_ERROR(platform::RemoveDurably<"volume.vol_data">(FileIn(folder)));
  RETURN_IF_ERROR(platform::RemoveTornWrites(folder));
  return RemoveEmptyFolder(folder);
}

Status CheckUnmounted(platform::Mounter& mounter, const std::string& path, std::string_view after) {
  ASSIGN_OR_RETURN(const auto table, mounter.List());
  const platform::MountEntry* mount = platform::FindMount(table, path);
  if (mount == nullptr) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition,
               "{} succeeded, but {} is still a mount point ({}): nothing below it is removed",
               after, Quote(path), Describe(*mount));
}

Status RemoveEmptyFolder(const std::string& path) {
  if (rmdir(path.c_str()) == 0) return base::OkStatus();
  const int error = errno;
  if (error == ENOENT) return base::OkStatus();
  if (error == ENOTEMPTY || error == EEXIST) {
    return Error(
        StatusCode::kFailedPrecondition,
        "remove folder {}: it is not empty; what is in it is on this node's own disk: look at "
        "it and remove it",
        Quote(path));
  }
  return platform::ErrnoError(error, fmt::format("remove folder {}", Quote(path)));
}

}  // namespace berth::volume::csi_volume
