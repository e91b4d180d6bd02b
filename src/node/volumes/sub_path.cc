#include "node/volumes/sub_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/probe_folder.h"
#include "platform/mounts/safe_path.h"
#include "volume/found_volumes.h"

namespace berth::node {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;

Status CheckSubPath(std::string_view sub_path) {
  if (sub_path.empty() || sub_path.size() > 4096 || sub_path.front() == '/' ||
      sub_path.find('\0') != std::string_view::npos) {
    return Error(StatusCode::kInvalidArgument, "subPath {} must be a relative path",
                 Quote(sub_path));
  }
  for (size_t begin = 0; begin <= sub_path.size();) {
    const size_t end = std::min(sub_path.find('/', begin), sub_path.size());
    if (sub_path.substr(begin, end - begin) == "..") {
      return Error(StatusCode::kInvalidArgument, "subPath {} must not contain '..'",
                   Quote(sub_path));
    }
    begin = end + 1;
  }
  return OkStatus();
}

// Opens the file or folder of the subPath. If it is missing, makes a folder with the mode of the
// volume's root.
StatusOr<UniqueFd> Resolve(int volume, std::string_view sub_path) {
  StatusOr<UniqueFd> found = platform::OpenBeneath(volume, sub_path);
  if (found.ok() || found.status().code() != StatusCode::kNotFound) return found;
  struct stat root{};
  if (fstat(volume, &root) != 0) return platform::ErrnoError(errno, "stat the volume");
  return platform::MakeFoldersBeneath(volume, sub_path, root.st_mode & 07777);
}

// Makes a mount point of the same kind, because the kernel binds folders on folders and all else on
// files.
Status MakeTarget(const std::string& target, bool folder) {
  if (folder) return platform::MakeFolders(target, 0750);
  RETURN_IF_ERROR(platform::MakeFolders(std::string(base::FolderOf(target)), 0750));
  const UniqueFd file(open(target.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (!file.valid()) return platform::ErrnoError(errno, fmt::format("make {}", Quote(target)));
  return OkStatus();
}

// Removes the mount and the mount point that an earlier start of the container left at the target.
// The earlier container keeps its own mount.
Status ClearTarget(platform::Mounter& mounter, const std::string& target) {
  struct stat info{};
  // The mount table is read first, because lstat would access the mounted file system, which may
  // hang.
  ASSIGN_OR_RETURN(const std::vector<platform::MountEntry> table, mounter.List());
  if (platform::FindMount(table, target) != nullptr) {
    const Status gone = mounter.Unmount(target);
    if (gone.code() == StatusCode::kFailedPrecondition) {
      RETURN_IF_ERROR(mounter.UnmountLazy(target));
    } else {
      RETURN_IF_ERROR(gone);
    }
  }
  if (lstat(target.c_str(), &info) != 0) {
    return errno == ENOENT ? OkStatus()
                           : platform::ErrnoError(errno, fmt::format("look at {}", Quote(target)));
  }
  const int removed = S_ISDIR(info.st_mode) ? rmdir(target.c_str()) : unlink(target.c_str());
  if (removed != 0 && errno != ENOENT) {
    return platform::ErrnoError(errno, fmt::format("remove {}", Quote(target)));
  }
  return OkStatus();
}

bool IsBeneath(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() + 1 && path.starts_with(folder) && path[folder.size()] == '/';
}

}  // namespace

StatusOr<std::string> MakeDeferredSubPath(const std::string& volume_path,
                                          std::string_view sub_path) {
  RETURN_IF_ERROR(CheckSubPath(sub_path));
  return fmt::format("{}/{}", volume_path, sub_path);
}

StatusOr<std::string> PrepareSubPath(platform::Mounter& mounter, const SubPathRequest& request) {
  const std::string context = fmt::format("prepare subPath {}", Quote(request.sub_path));
  const Status prepared = [&]() -> Status {
    RETURN_IF_ERROR(CheckSubPath(request.sub_path));
    RETURN_IF_ERROR(platform::ProbeFolder(request.volume_path));
    ASSIGN_OR_RETURN(const UniqueFd volume, platform::OpenFolder(request.volume_path));
    ASSIGN_OR_RETURN(const UniqueFd source, Resolve(volume.get(), request.sub_path));
    struct stat kind{};
    if (fstat(source.get(), &kind) != 0) return platform::ErrnoError(errno, "stat it");
    if (S_ISLNK(kind.st_mode)) {
      return Error(StatusCode::kPermissionDenied, "it is a symlink");
    }
    RETURN_IF_ERROR(ClearTarget(mounter, request.target));
    RETURN_IF_ERROR(MakeTarget(request.target, S_ISDIR(kind.st_mode)));
    RETURN_IF_ERROR(base::FaultPoint<"node.sub_path.mount">());
    platform::MountRequest mount{.source = platform::ProcPath(source), .target = request.target};
    mount.options = {"bind"};
    if (request.read_only) mount.options.emplace_back("ro");
    return mounter.Mount(mount);
  }();
  RETURN_IF_ERROR_WITH(prepared, context);
  return request.target;
}

Status UnmountBeneath(platform::Mounter& mounter, std::string_view folder) {
  ASSIGN_OR_RETURN(const std::vector<platform::MountEntry> table, mounter.List());
  // The table is in the order of mounting, so a mount on top of another one comes after it.
  for (auto mount = table.rbegin(); mount != table.rend(); ++mount) {
    if (!IsBeneath(mount->mount_point, folder)) continue;
    RETURN_IF_ERROR_WITH(mounter.Unmount(mount->mount_point),
                         fmt::format("unmount {}", Quote(mount->mount_point)));
  }
  return OkStatus();
}

StatusOr<std::vector<std::string>> ReadSubPathVolumes(const volume::Paths& paths,
                                                      std::string_view pod_uid) {
  return volume::ListNames(paths.PodSubPaths(pod_uid));
}

Status ReleaseSubPaths(platform::Mounter& mounter, const volume::Paths& paths,
                       std::string_view pod_uid, const std::vector<std::string>& volumes) {
  const std::string all = paths.PodSubPaths(pod_uid);
  struct stat info{};
  for (const std::string& volume : volumes) {
    const std::string folder = fmt::format("{}/{}", all, volume);
    // Nothing can be mounted beneath a folder that does not exist. lstat does not block here,
    // because these folders are on the node's own disk.
    if (lstat(folder.c_str(), &info) != 0 && errno == ENOENT) continue;
    RETURN_IF_ERROR(UnmountBeneath(mounter, folder));
    RETURN_IF_ERROR(platform::RemoveTree(folder));
  }
  // The common folder is removed together with the last volume of the pod.
  if (rmdir(all.c_str()) != 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST) {
    return platform::ErrnoError(errno, fmt::format("remove {}", Quote(all)));
  }
  return OkStatus();
}

}  // namespace berth::node
