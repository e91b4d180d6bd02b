// What the kubelet asks of a Flexvolume driver: the mount's folder and options, read. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace berth::blockagent {

// What a folder's path says of the volume that is mounted there:
//   .../pods/UID/volumes/VENDOR~DRIVER/NAME
//   .../plugins/kubernetes.io/flexvolume/VENDOR/DRIVER/mounts/NAME     (no pod)
struct VolumeFolder {
  std::string pod_uid;  // empty: it is shared by pods
  std::string driver;   // "vendor/driver"
  std::string volume;   // the PersistentVolume's name, or that of an inline volume
  bool operator==(const VolumeFolder&) const = default;
};

// nullopt: a path of neither form.
std::optional<VolumeFolder> ParseVolumeFolder(std::string_view path);

struct MountCall {
  std::string mount_dir;
  std::string pod_uid;
  std::string pod_namespace;
  std::string pod;
  std::string volume;
  std::string driver;
  std::string fs_type;  // empty: as the device says
  bool read_only = false;
};

// INVALID_ARGUMENT: no folder of a pod's volume, or options that lack what is needed or contradict
// the folder. Options are merged with those of the volume, so that where both know something (the
// pod's uid, the volume) the folder, which the kubelet made, decides.
base::StatusOr<MountCall> ReadMountCall(const std::string& mount_dir, std::string_view options);

}  // namespace berth::blockagent
