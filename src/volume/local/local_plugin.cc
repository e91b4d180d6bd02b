#include "volume/local/local_plugin.h"

#include "base/log.h"
#include "platform/usage.h"
#include "volume/found_volumes.h"
#include "volume/local/volume_folder.h"

namespace berth::volume {
namespace {

constexpr std::chrono::seconds kUsageTimeout(60);

}  // namespace

bool LocalPlugin::Supports(const VolumeSpec& spec) const {
  return spec.pv == nullptr && spec.pod_volume.source_type() == source_type_;
}

StatusOr<std::optional<std::string>> LocalPlugin::DeviceName(const VolumeSpec&) const {
  return std::optional<std::string>();
}

StatusOr<bool> LocalPlugin::NeedsAttach(const VolumeSpec&) const { return false; }

StatusOr<Json> LocalPlugin::DeviceState(const VolumeSpec&) const { return Json::object(); }

StatusOr<Json> LocalPlugin::PodState(const api::Pod&, const VolumeSpec&) const {
  return Json::object();
}

Status LocalPlugin::MountDevice(const api::Pod&, const VolumeSpec&, const api::Labels&) {
  return base::OkStatus();
}

Status LocalPlugin::UnmountDevice(const DeviceRecord&) { return base::OkStatus(); }

Status LocalPlugin::TearDown(const PodVolumeRecord& record) {
  return RemoveVolumeFolder(host_, Folder(record));
}

StatusOr<VolumePlugin::Found> LocalPlugin::FindOnNode() const {
  Found found;
  ASSIGN_OR_RETURN(found.pod_volumes, FindPodFolders(host_.paths(), name_));
  return found;
}

Status LocalPlugin::Expand(const PodVolumeRecord&, const VolumeSpec&, int64_t) {
  return base::Error(base::StatusCode::kUnimplemented, "volumes of {} do not grow", name_);
}

StatusOr<VolumePlugin::Stats> LocalPlugin::GetStats(const PodVolumeRecord& record) {
  const std::string folder = Folder(record);
  ASSIGN_OR_RETURN(const platform::FileSystemUsage fs, platform::GetFileSystemUsage(folder));
  ASSIGN_OR_RETURN(
      const platform::FolderUsage used,
      platform::GetFolderUsage(folder, std::chrono::steady_clock::now() + kUsageTimeout));
  return Stats{.total_bytes = fs.total_bytes,
               .used_bytes = used.bytes,
               .available_bytes = fs.available_bytes,
               .total_inodes = fs.total_inodes,
               .used_inodes = used.inodes,
               .available_inodes = fs.available_inodes};
}

}  // namespace berth::volume
