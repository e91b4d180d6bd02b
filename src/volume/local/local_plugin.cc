#include "volume/local/local_plugin.h"

#include "base/log.h"
#include "platform/walks/usage.h"
#include "volume/local/volume_folder.h"

namespace berth::volume {
namespace {

constexpr std::chrono::seconds kUsageTimeout(60);

}  // namespace

Status LocalPlugin::TearDown(const PodVolumeRecord& record) {
  return RemoveVolumeFolder(host(), Folder(record));
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
