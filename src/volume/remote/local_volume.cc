#include "volume/remote/local_volume.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/file_systems/device_file_system.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/probe_folder.h"
#include "platform/processes/child.h"
#include "platform/walks/usage.h"
#include "volume/device_mounts.h"
#include "volume/found_volumes.h"
#include "volume/volume_files.h"

namespace berth::volume {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::StatusCode;
using base::json::Bool;
using base::json::String;

constexpr int kMaxStackedMounts =
    16;  // a crash between mount and record may leave one on top of another
constexpr std::chrono::seconds kLookTimeout(10);

std::string DeviceNameOf(std::string_view pv) {
  return fmt::format("kubernetes.io/local-volume/{}", pv);
}

// Whether both paths lead to one file or folder.
StatusOr<bool> AreSame(const std::string& a, const std::string& b) {
  return platform::AskChild<bool>(fmt::format("compare {} with {}", Quote(a), Quote(b)),
                                  kLookTimeout, [a, b](bool& same) {
                                    struct stat of_a;
                                    struct stat of_b;
                                    if (stat(a.c_str(), &of_a) != 0 || stat(b.c_str(), &of_b) != 0)
                                      return errno;
                                    same = of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
                                    return 0;
                                  });
}

StatusOr<int64_t> ReadDeviceBytes(const std::string& device) {
  ASSIGN_OR_RETURN(
      const uint64_t bytes,
      platform::AskChild<uint64_t>(
          fmt::format("size of {}", Quote(device)), kLookTimeout, [device](uint64_t& bytes) {
            const int fd = open(device.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
            return fd >= 0 && ioctl(fd, BLKGETSIZE64, &bytes) == 0 ? 0 : errno;
          }));
  return static_cast<int64_t>(bytes);
}

// Makes the file on which a bind of a file is mounted.
Status MakeFile(const std::string& path) {
  RETURN_IF_ERROR(platform::MakeFolders(ParentOf(path), 0750));
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.valid()) return OkStatus();
  return platform::ErrnoError(errno, fmt::format("make file {}", Quote(path)));
}

}  // namespace

bool LocalVolumePlugin::Supports(const VolumeSpec& spec) const {
  return spec.pv != nullptr && base::json::Find(spec.pv->json(), {"spec", "local"}) != nullptr;
}

StatusOr<std::optional<std::string>> LocalVolumePlugin::DeviceName(const VolumeSpec& spec) const {
  return std::optional(DeviceNameOf(spec.pv->name()));
}

StatusOr<Json> LocalVolumePlugin::DeviceState(const VolumeSpec& spec) const {
  return Json{{"block", spec.block()}};
}

StatusOr<Json> LocalVolumePlugin::PodState(const api::Pod&, const VolumeSpec&) const {
  return Json::object();
}

StatusOr<LocalVolumePlugin::Source> LocalVolumePlugin::FindSource(const VolumeSpec& spec) const {
  Source source{.path = String(spec.pv->json(), {"spec", "local", "path"}), .device = {}};
  RETURN_IF_ERROR(CheckHostPath("local.path", source.path));
  ASSIGN_OR_RETURN(const auto found, host_.LookAtDevices({source.path}));
  if (!found.front().present) {
    return Error(StatusCode::kNotFound, "there is nothing at {}, the path of local volume '{}'",
                 Quote(source.path), spec.pv->name());
  }
  if (found.front().block) {
    source.device = found.front().number;
    return source;
  }
  if (spec.block()) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} is no block device, which volumeMode Block of volume '{}' needs",
                 Quote(source.path), spec.pv->name());
  }
  RETURN_IF_ERROR_WITH(platform::ProbeFolder(source.path), "the volume's folder");
  return source;
}

// ---- the device

StatusOr<bool> LocalVolumePlugin::IsUsedByPods(const Source& source, const std::string& pv) const {
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  const std::string mounts = host_.paths().LocalMounts() + "/";
  const std::string own = host_.paths().LocalMount(pv);
  const std::string kubelet = host_.paths().root() + "/";
  bool bound = false;
  for (const platform::MountEntry& entry : table) {
    if (entry.mount_point == own) continue;
    ASSIGN_OR_RETURN(const bool shown, ShowsDevice(host_, entry, *source.device));
    if (!shown) continue;
    // Binds for pods are below the kubelet's folder.
    if (entry.mount_point.starts_with(mounts) || !entry.mount_point.starts_with(kubelet)) {
      return Error(StatusCode::kFailedPrecondition, "device {} is in use: it is mounted at {}",
                   Quote(source.path), Quote(entry.mount_point));
    }
    bound = true;
  }
  return bound;
}

StatusOr<const platform::MountEntry*> LocalVolumePlugin::FindDeviceMount(
    const std::vector<platform::MountEntry>& table, const Source& source,
    const std::string& target) const {
  const platform::MountEntry* entry = platform::FindMount(table, target);
  if (entry != nullptr) {
    ASSIGN_OR_RETURN(const bool shown, ShowsDevice(host_, *entry, *source.device));
    if (shown) return entry;
  }
  return Error(StatusCode::kFailedPrecondition, "device {} is not mounted at {}",
               Quote(source.path), Quote(target));
}

Status LocalVolumePlugin::MountDevice(const api::Pod&, const VolumeSpec& spec, const api::Labels&) {
  const std::string what = fmt::format("mount local volume '{}'", spec.pv->name());
  ASSIGN_OR_RETURN(const Source source, FindSource(spec));
  if (!source.device.has_value()) return OkStatus();
  const auto bound = IsUsedByPods(source, spec.pv->name());
  RETURN_IF_ERROR_WITH(bound, what);
  if (spec.block()) return OkStatus();
  const std::string target = host_.paths().LocalMount(spec.pv->name());
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  if (const platform::MountEntry* entry = platform::FindMount(table, target)) {
    ASSIGN_OR_RETURN(const bool shown, ShowsDevice(host_, *entry, *source.device));
    if (shown) return OkStatus();
    return Error(StatusCode::kFailedPrecondition,
                 "{}: another mount ({} from {}) stands at {}: unmount it", what, entry->fs_type,
                 Quote(entry->source), Quote(target));
  }
  const auto type = platform::ChooseFileSystemType(
      source.path, String(spec.pv->json(), {"spec", "local", "fsType"}));
  RETURN_IF_ERROR_WITH(type, what);
  // A mounted device must not be checked.
  if (!*bound)
    RETURN_IF_ERROR_WITH(platform::PrepareFileSystem(host_.exec(name()), source.path, *type), what);
  RETURN_IF_ERROR(platform::MakeFolders(target, 0750));
  const Status mounted = host_.mounter().Mount({.source = source.path,
                                                .target = target,
                                                .fs_type = *type,
                                                .options = spec.pv->mount_options()});
  return base::Annotate(mounted, what);
}

Status LocalVolumePlugin::UnmountAll(const std::string& target) {
  for (int i = 0; i < kMaxStackedMounts; ++i) {
    ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
    if (platform::FindMount(table, target) == nullptr) break;
    RETURN_IF_ERROR(host_.mounter().Unmount(target));
  }
  return OkStatus();
}

Status LocalVolumePlugin::UnmountDevice(const DeviceRecord& record) {
  const std::string target = host_.paths().LocalMount(record.pv_name);
  RETURN_IF_ERROR(UnmountAll(target));
  return RemoveEmptyFolder(target);
}

std::string LocalVolumePlugin::DevicePath(const DeviceRecord& record) const {
  return Bool(record.state, {"block"}) ? "" : host_.paths().LocalMount(record.pv_name);
}

// ---- for a pod

StatusOr<bool> LocalVolumePlugin::IsUsedByOthers(const std::string& pv,
                                                 const std::string& pod_uid) const {
  ASSIGN_OR_RETURN(const auto uids, ListNames(host_.paths().Pods()));
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  return std::any_of(uids.begin(), uids.end(), [&](const std::string& uid) {
    return uid != pod_uid &&
           platform::FindMount(table, host_.paths().PodVolume(api::PodUid(uid), name(),
                                                              api::VolumeName(pv))) != nullptr;
  });
}

Status LocalVolumePlugin::ApplyFsGroup(const api::Pod& pod, const VolumeSpec& spec,
                                       const std::string& folder) {
  if (!pod.fs_group().has_value()) return OkStatus();
  ASSIGN_OR_RETURN(const bool shared, IsUsedByOthers(spec.pv->name(), pod.uid()));
  // Only the first pod applies it: files must not get another group while other pods use them.
  if (!shared) return ApplyPodFsGroup(host_, pod, folder);
  ASSIGN_OR_RETURN(const struct stat st, platform::AskChild<struct stat>(
                                             fmt::format("stat {}", Quote(folder)), kLookTimeout,
                                             [folder](struct stat& st) {
                                               return stat(folder.c_str(), &st) == 0 ? 0 : errno;
                                             }));
  if (static_cast<int64_t>(st.st_gid) != *pod.fs_group()) {
    host_.events().Record(
        pod.reference(), base::EventType::kWarning, "VolumeAlreadyMounted",
        fmt::format("local volume '{}' belongs to group {} of the pods that use it already; this "
                    "pod asks for fsGroup {} and may not be able to use it",
                    spec.pv->name(), st.st_gid, *pod.fs_group()));
  }
  return OkStatus();
}

StatusOr<Published> LocalVolumePlugin::SetUp(const api::Pod& pod, const VolumeSpec& spec,
                                             const api::Labels&) {
  ASSIGN_OR_RETURN(const Source source, FindSource(spec));
  if (spec.block()) return PublishDevice(pod, spec, source);
  const std::string folder =
      source.device.has_value() ? host_.paths().LocalMount(spec.pv->name()) : source.path;
  const std::string target =
      host_.paths().PodVolume(api::PodUid(pod.uid()), name(), api::VolumeName(spec.folder_name()));
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  if (source.device.has_value()) {
    RETURN_IF_ERROR(FindDeviceMount(table, source, folder).status());
  }
  const Published published{.path = target, .read_only = spec.read_only};
  if (platform::FindMount(table, target) != nullptr) {
    ASSIGN_OR_RETURN(const bool same, AreSame(folder, target));
    if (same) return published;
    return Error(StatusCode::kFailedPrecondition,
                 "what is mounted at {} is not local volume '{}': unmount it", Quote(target),
                 spec.pv->name());
  }
  if (!spec.read_only) RETURN_IF_ERROR(ApplyFsGroup(pod, spec, folder));
  RETURN_IF_ERROR(platform::MakeFolders(target, 0750));
  platform::MountRequest bind{
      .source = folder, .target = target, .fs_type = "", .options = {"bind"}};
  if (spec.read_only) bind.options.emplace_back("ro");
  RETURN_IF_ERROR(host_.mounter().Mount(bind));
  return published;
}

StatusOr<Published> LocalVolumePlugin::PublishDevice(const api::Pod& pod, const VolumeSpec& spec,
                                                     const Source& source) {
  const std::string target =
      host_.paths().LocalPublish(api::VolumeName(spec.pv->name()), api::PodUid(pod.uid()));
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  if (platform::FindMount(table, target) == nullptr) {
    RETURN_IF_ERROR(MakeFile(target));
    RETURN_IF_ERROR(host_.mounter().Mount(
        {.source = source.path, .target = target, .fs_type = "", .options = {"bind"}}));
  }
  ASSIGN_OR_RETURN(const auto found, host_.LookAtDevices({target}));
  if (!found.front().block || found.front().number != *source.device) {
    return Error(StatusCode::kFailedPrecondition,
                 "what is published at {} is not device {} of local volume '{}'", Quote(target),
                 Quote(source.path), spec.pv->name());
  }
  RETURN_IF_ERROR(PointLink(host_.paths().PodDeviceLink(api::PodUid(pod.uid()), name(),
                                                        api::VolumeName(spec.folder_name())),
                            target));
  return Published{.path = target, .block = true, .read_only = spec.read_only};
}

Status LocalVolumePlugin::UnpublishDevice(const PodVolumeRecord& record) {
  const std::string target =
      host_.paths().LocalPublish(api::VolumeName(record.folder_name), api::PodUid(record.pod_uid));
  const std::string link = host_.paths().PodDeviceLink(api::PodUid(record.pod_uid), name(),
                                                       api::VolumeName(record.folder_name));
  RETURN_IF_ERROR(RemoveFile(link));
  RETURN_IF_ERROR(UnmountAll(target));
  RETURN_IF_ERROR(RemoveFile(target));
  RemoveFolderIfEmpty(ParentOf(target));
  RemoveFolderIfEmpty(ParentOf(link));
  RemoveFolderIfEmpty(ParentOf(ParentOf(link)));
  return OkStatus();
}

Status LocalVolumePlugin::TearDown(const PodVolumeRecord& record) {
  if (record.block) return UnpublishDevice(record);
  const std::string target = host_.paths().PodVolume(api::PodUid(record.pod_uid), name(),
                                                     api::VolumeName(record.folder_name));
  RETURN_IF_ERROR(UnmountAll(target));
  return RemoveEmptyFolder(target);
}

// ---- size

Status LocalVolumePlugin::Expand(const PodVolumeRecord& record, const VolumeSpec& spec,
                                 int64_t bytes) {
  ASSIGN_OR_RETURN(const Source source, FindSource(spec));
  if (record.block || !source.device.has_value()) {
    return Error(StatusCode::kUnimplemented, "local volume '{}' has no file system of its own",
                 record.folder_name);
  }
  ASSIGN_OR_RETURN(const int64_t size, ReadDeviceBytes(source.path));
  if (size < bytes) {
    return Error(StatusCode::kFailedPrecondition,
                 "device {} has {} bytes, fewer than the {} of volume '{}': grow the device first",
                 Quote(source.path), size, bytes, record.folder_name);
  }
  const std::string target = host_.paths().LocalMount(spec.pv->name());
  ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
  ASSIGN_OR_RETURN(const platform::MountEntry* const entry, FindDeviceMount(table, source, target));
  const platform::FileSystem* fs = platform::FindFileSystem(entry->fs_type);
  if (fs == nullptr) {
    return Error(StatusCode::kUnimplemented, "a file system of type {} does not grow",
                 entry->fs_type);
  }
  return fs->Resize(host_.exec(name()), source.path, target);
}

StatusOr<VolumePlugin::Stats> LocalVolumePlugin::GetStats(const PodVolumeRecord& record) {
  if (record.block) {
    return Error(StatusCode::kUnimplemented, "a raw device has no statistics");
  }
  const std::string target = host_.paths().PodVolume(api::PodUid(record.pod_uid), name(),
                                                     api::VolumeName(record.folder_name));
  ASSIGN_OR_RETURN(const platform::FileSystemUsage usage, platform::GetFileSystemUsage(target));
  return StatsOf(usage);
}

// ---- the volumes on the node

StatusOr<VolumePlugin::Found> LocalVolumePlugin::FindOnNode() const {
  Found found;
  const auto add_device = [&](const std::string& pv, bool block) {
    found.devices.push_back({.plugin = std::string(name()),
                             .device_name = DeviceNameOf(pv),
                             .pv_name = pv,
                             .state = {{"block", block}}});
  };
  ASSIGN_OR_RETURN(const auto mounted, ListNames(host_.paths().LocalMounts()));
  for (const std::string& pv : mounted) add_device(pv, false);
  ASSIGN_OR_RETURN(found.pod_volumes, FindPodFolders(host_.paths(), name()));
  for (PodVolumeRecord& volume : found.pod_volumes) {
    volume.device_name = DeviceNameOf(volume.folder_name);
    volume.state = Json::object();
  }
  ASSIGN_OR_RETURN(const auto published, ListNames(host_.paths().LocalPublishedVolumes()));
  for (const std::string& pv : published) {
    add_device(pv, true);
    ASSIGN_OR_RETURN(const auto uids, ListNames(host_.paths().LocalPublished(pv)));
    for (const std::string& uid : uids) {
      found.pod_volumes.push_back({.plugin = std::string(name()),
                                   .device_name = DeviceNameOf(pv),
                                   .pod_uid = uid,
                                   .folder_name = pv,
                                   .block = true,
                                   .state = Json::object()});
    }
  }
  return found;
}

}  // namespace berth::volume
