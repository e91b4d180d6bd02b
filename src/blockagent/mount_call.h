// Parses what the kubelet passes to a Flexvolume driver: the mount's folder and its options. Pure
// functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace berth::blockagent {

// What the path of a mount's folder says about the volume:
//   .../pods/UID/volumes/VENDOR~DRIVER/NAME
//   .../plugins/kubernetes.io/flexvolume/VENDOR/DRIVER/mounts/NAME     (no pod)
struct VolumeFolder {
  std::string pod_uid;  // empty: it is shared by pods
  std::string driver;   // "vendor/driver"
  std::string volume;   // the PersistentVolume's name, or that of an inline volume
  bool operator==(const VolumeFolder&) const = default;
};

// nullopt: the path has neither form.
std::optional<VolumeFolder> ParseVolumeFolder(std::string_view path);

struct MountCall {
  std::string mount_dir;
  std::string pod_uid;
  std::string pod_namespace;
  std::string pod;
  std::string volume;
  std::string driver;
  std::string fs_type;  // empty: the type that is on the device
  bool read_only = false;
};

// INVALID_ARGUMENT: the folder is not one of a pod's volume, or options are missing or contradict
// the folder. If folder and options name the same thing (the pod's uid, the volume), the folder
// decides: the kubelet made the folder, but the options may come from the volume's own.
base::StatusOr<MountCall> ReadMountCall(const std::string& mount_dir, std::string_view options);

}  // namespace berth::blockagent
