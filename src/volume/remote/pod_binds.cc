#include "volume/remote/pod_binds.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"
#include "platform/walks/usage.h"
#include "volume/found_volumes.h"
#include "volume/volume_files.h"

namespace berth::volume {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::StatusCode;

// A crash between mount and record may leave one on top of another.
constexpr int kMaxStackedBinds = 16;
constexpr std::chrono::seconds kBindLookTimeout(10);

// Whether both paths lead to one file or folder.
StatusOr<bool> AreSame(const std::string& a, const std::string& b) {
  return platform::AskChild<bool>(fmt::format("compare {} with {}", Quote(a), Quote(b)),
                                  kBindLookTimeout, [a, b](bool& same) {
                                    struct stat of_a;
                                    struct stat of_b;
                                    if (stat(a.c_str(), &of_a) != 0 || stat(b.c_str(), &of_b) != 0)
                                      return errno;
                                    same = of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
                                    return 0;
                                  });
}

// Makes the file on which a bind of a file is mounted.
Status MakeFile(const std::string& path) {
  RETURN_IF_ERROR(platform::MakeFolders(ParentOf(path), 0750));
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.valid()) return OkStatus();
  return platform::ErrnoError(errno, fmt::format("make file {}", Quote(path)));
}

}  // namespace

std::string PodBinds::Folder(const api::PodUid& pod, const api::VolumeName& volume) const {
  return host_.paths().PodVolume(pod, plugin_, volume);
}

Status PodBinds::UnmountAll(const std::string& target) {
  for (int i = 0; i < kMaxStackedBinds; ++i) {
    ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
    if (platform::FindMount(table, target) == nullptr) break;
    RETURN_IF_ERROR(host_.mounter().Unmount(target));
  }
  return OkStatus();
}

// ---- folders

Status PodBinds::ApplyFsGroup(const api::Pod& pod, const VolumeSpec& spec, const Source& source) {
  const std::string& folder = source.folder;
  if (!pod.fs_group().has_value()) return OkStatus();
  // Only the first pod applies it: files must not get another group while other pods use them.
  if (!source.shared) return ApplyPodFsGroup(host_, pod, folder);
  ASSIGN_OR_RETURN(const struct stat st, platform::AskChild<struct stat>(
                                             fmt::format("stat {}", Quote(folder)),
                                             kBindLookTimeout, [folder](struct stat& st) {
                                               return stat(folder.c_str(), &st) == 0 ? 0 : errno;
                                             }));
  if (static_cast<int64_t>(st.st_gid) != *pod.fs_group()) {
    host_.events().Record(
        pod.reference(), base::EventType::kWarning, "VolumeAlreadyMounted",
        fmt::format("{} volume '{}' belongs to group {} of the pods that use it already; this pod "
                    "asks for fsGroup {} and may not be able to use it",
                    kind_, spec.folder_name(), st.st_gid, *pod.fs_group()));
  }
  return OkStatus();
}

StatusOr<Published> PodBinds::BindFolder(const api::Pod& pod, const VolumeSpec& spec,
                                         const Source& source) {
  const std::string target = Folder(api::PodUid(pod.uid()), api::VolumeName(spec.folder_name()));
  const Published published{.path = target, .read_only = source.read_only};
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  if (platform::FindMount(table, target) != nullptr) {
    ASSIGN_OR_RETURN(const bool same, AreSame(source.folder, target));
    if (same) return published;
    return Error(StatusCode::kFailedPrecondition,
                 "what is mounted at {} is not {} volume '{}': unmount it", Quote(target), kind_,
                 spec.folder_name());
  }
  if (!source.read_only) RETURN_IF_ERROR(ApplyFsGroup(pod, spec, source));
  RETURN_IF_ERROR(platform::MakeFolders(target, 0750));
  platform::MountRequest bind{
      .source = source.folder, .target = target, .fs_type = "", .options = {"bind"}};
  if (source.read_only) bind.options.emplace_back("ro");
  RETURN_IF_ERROR(host_.mounter().Mount(bind));
  return published;
}

// ---- raw devices

StatusOr<Published> PodBinds::BindDevice(const api::Pod& pod, const VolumeSpec& spec,
                                         const std::string& path, dev_t number) {
  const std::string target = host_.paths().PublishedDevice(
      plugin_, api::VolumeName(spec.folder_name()), api::PodUid(pod.uid()));
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  if (platform::FindMount(table, target) == nullptr) {
    RETURN_IF_ERROR(MakeFile(target));
    RETURN_IF_ERROR(host_.mounter().Mount(
        {.source = path, .target = target, .fs_type = "", .options = {"bind"}}));
  }
  ASSIGN_OR_RETURN(const auto found, host_.LookAtDevices({target}));
  if (!found.front().block || found.front().number != number) {
    return Error(StatusCode::kFailedPrecondition,
                 "what is published at {} is not device {} of {} volume '{}'", Quote(target),
                 Quote(path), kind_, spec.folder_name());
  }
  RETURN_IF_ERROR(PointLink(host_.paths().PodDeviceLink(api::PodUid(pod.uid()), plugin_,
                                                        api::VolumeName(spec.folder_name())),
                            target));
  return Published{.path = target, .block = true, .read_only = spec.read_only};
}

Status PodBinds::RemoveDevice(const PodVolumeRecord& record) {
  const api::VolumeName volume(record.folder_name);
  const api::PodUid pod(record.pod_uid);
  const std::string target = host_.paths().PublishedDevice(plugin_, volume, pod);
  const std::string link = host_.paths().PodDeviceLink(pod, plugin_, volume);
  RETURN_IF_ERROR(RemoveFile(link));
  RETURN_IF_ERROR(UnmountAll(target));
  RETURN_IF_ERROR(RemoveFile(target));
  RemoveFolderIfEmpty(ParentOf(target));
  RemoveFolderIfEmpty(ParentOf(link));
  RemoveFolderIfEmpty(ParentOf(ParentOf(link)));
  return OkStatus();
}

Status PodBinds::Remove(const PodVolumeRecord& record) {
  if (record.block) return RemoveDevice(record);
  const std::string target =
      Folder(api::PodUid(record.pod_uid), api::VolumeName(record.folder_name));
  RETURN_IF_ERROR(UnmountAll(target));
  return RemoveEmptyFolder(target);
}

StatusOr<VolumePlugin::Stats> PodBinds::GetStats(const PodVolumeRecord& record) const {
  if (record.block) {
    return Error(StatusCode::kUnimplemented, "a raw device has no statistics");
  }
  const std::string target =
      Folder(api::PodUid(record.pod_uid), api::VolumeName(record.folder_name));
  ASSIGN_OR_RETURN(const platform::FileSystemUsage usage, platform::GetFileSystemUsage(target));
  return StatsOf(usage);
}

StatusOr<std::vector<PodVolumeRecord>> PodBinds::FindDevices() const {
  std::vector<PodVolumeRecord> found;
  ASSIGN_OR_RETURN(const auto published, ListNames(host_.paths().PublishedDevices(plugin_)));
  for (const std::string& volume : published) {
    ASSIGN_OR_RETURN(const auto uids,
                     ListNames(host_.paths().PublishedDevices(plugin_) + "/" + volume));
    for (const std::string& uid : uids) {
      found.push_back({.plugin = std::string(plugin_),
                       .device_name = "",
                       .pod_uid = uid,
                       .folder_name = volume,
                       .block = true,
                       .state = Json::object()});
    }
  }
  return found;
}

}  // namespace berth::volume
