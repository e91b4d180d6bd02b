#include "volume/local/volume_folder.h"

#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/mounter.h"

namespace berth::volume {
namespace {

using base::Quote;
using base::Status;
using base::StatusCode;

constexpr int kMaxStacked = 16;  // a crash between mount and record may leave one on top of another

Status MountTmpfs(platform::Mounter& mounter, const std::string& path, int64_t size_bytes) {
  platform::MountRequest request{
      .source = "tmpfs", .target = path, .fs_type = "tmpfs", .options = {"mode=0777"}};
  if (size_bytes > 0) request.options.push_back(fmt::format("size={}", size_bytes));
  platform::MountRequest unswapped = request;
  unswapped.options.emplace_back("noswap");
  const Status status = mounter.Mount(unswapped);
  // Linux before 6.4 does not know the option.
  if (status.code() == StatusCode::kInvalidArgument) return mounter.Mount(request);
  return status;
}

}  // namespace

Status PrepareVolumeFolder(Host& host, const std::string& path, Medium medium, int64_t size_bytes) {
  ASSIGN_OR_RETURN(const std::vector<platform::MountEntry> table, host.mounter().List());
  const platform::MountEntry* mounted = platform::FindMount(table, path);
  if (mounted != nullptr) {
    if (medium == Medium::kMemory && mounted->fs_type == "tmpfs") return base::OkStatus();
    return base::Error(StatusCode::kFailedPrecondition, "{} from {} is mounted at {}",
                       mounted->fs_type, Quote(mounted->source), Quote(path));
  }
  RETURN_IF_ERROR(platform::MakeFolders(path, 0777));
  if (medium == Medium::kDisk) return base::OkStatus();
  return MountTmpfs(host.mounter(), path, size_bytes);
}

Status RemoveVolumeFolder(Host& host, const std::string& path) {
  for (int i = 0; i < kMaxStacked; ++i) {
    ASSIGN_OR_RETURN(const std::vector<platform::MountEntry> table, host.mounter().List());
    if (platform::FindMount(table, path) == nullptr) break;
    RETURN_IF_ERROR(host.mounter().Unmount(path));
  }
  return platform::RemoveTree(path);
}

}  // namespace berth::volume
