#include "volume/volume_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "base/text.h"
#include "platform/errno.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/probe_folder.h"
#include "platform/walks/ownership.h"

namespace berth::volume {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::StatusCode;

std::string ParentOf(const std::string& path) { return std::string(base::FolderOf(path)); }

Status PointLink(const std::string& link, const std::string& to) {
  RETURN_IF_ERROR(platform::MakeFolders(ParentOf(link), 0750));
  const std::string temp = link + ".new";
  unlink(temp.c_str());
  if (symlink(to.c_str(), temp.c_str()) != 0 || rename(temp.c_str(), link.c_str()) != 0) {
    const int error = errno;
    return platform::ErrnoError(error, fmt::format("link {} to {}", Quote(link), Quote(to)));
  }
  return OkStatus();
}

Status RemoveFile(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return OkStatus();
  const int error = errno;
  return platform::ErrnoError(error, fmt::format("remove {}", Quote(path)));
}

Status RemoveEmptyFolder(const std::string& path) {
  if (rmdir(path.c_str()) == 0) return OkStatus();
  const int error = errno;
  if (error == ENOENT) return OkStatus();
  if (error == ENOTEMPTY || error == EEXIST) {
    return Error(
        StatusCode::kFailedPrecondition,
        "remove folder {}: it is not empty; its files are on this node's own disk: check them and "
        "remove them",
        Quote(path));
  }
  return platform::ErrnoError(error, fmt::format("remove folder {}", Quote(path)));
}

void RemoveFolderIfEmpty(const std::string& path) { rmdir(path.c_str()); }

Status CheckHostPath(std::string_view field, const std::string& path) {
  if (!path.starts_with('/') || path.find('\0') != std::string::npos) {
    return Error(StatusCode::kInvalidArgument, "{} {} is not absolute", field, Quote(path));
  }
  if ((path + "/").find("/../") != std::string::npos) {
    return Error(StatusCode::kInvalidArgument, "{} {} must not contain '..'", field, Quote(path));
  }
  return OkStatus();
}

namespace {

// Whether only this kernel uses the file system at `folder`, and no other pod has it.
bool IsAlone(platform::Mounter& mounter, const Paths& paths, const api::Pod& pod,
             const std::string& folder) {
  const auto table = mounter.List();
  const platform::MountEntry* own = table.ok() ? platform::FindMount(*table, folder) : nullptr;
  if (own == nullptr || platform::FindFileSystem(own->fs_type) == nullptr) return false;
  const std::string pods = paths.Pods() + "/", of_pod = pods + pod.uid() + "/";
  return std::none_of(table->begin(), table->end(), [&](const platform::MountEntry& mount) {
    return mount.major == own->major && mount.minor == own->minor &&
           mount.mount_point.starts_with(pods) && !mount.mount_point.starts_with(of_pod);
  });
}

}  // namespace

Status ApplyPodFsGroup(Host& host, const api::Pod& pod, const std::string& folder) {
  if (!pod.fs_group().has_value()) return OkStatus();
  // If no process serves the mount, the probe finds that out sooner than a walk.
  RETURN_IF_ERROR(platform::ProbeFolder(folder));
  const platform::FsGroupOptions options{
      .group = static_cast<gid_t>(*pod.fs_group()),
      .only_on_root_mismatch = pod.fs_group_change_policy() == "OnRootMismatch",
      .exclusive = IsAlone(host.mounter(), host.paths(), pod, folder),
      .cancelled = [&host] { return host.ending(); },
      .progress =
          [&](uint64_t done) {
            host.events().Record(pod.reference(), base::EventType::kNormal,
                                 "VolumePermissionChangeInProgress",
                                 fmt::format("give {} to fsGroup {}: {} files and folders so far",
                                             Quote(folder), *pod.fs_group(), done));
          }};
  RETURN_IF_ERROR_WITH(platform::ApplyFsGroup(folder, options),
                       fmt::format("give {} to fsGroup {}", Quote(folder), options.group));
  return OkStatus();
}

VolumePlugin::Stats StatsOf(const platform::FileSystemUsage& usage) {
  return {.total_bytes = usage.total_bytes,
          .used_bytes = usage.used_bytes,
          .available_bytes = usage.available_bytes,
          .total_inodes = usage.total_inodes,
          .used_inodes = usage.used_inodes,
          .available_inodes = usage.available_inodes};
}

}  // namespace berth::volume
