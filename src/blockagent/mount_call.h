// Parses the arguments that the kubelet passes to a Flexvolume driver's mount and unmount: the
// folder of the mount, and its options as JSON. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace berth::blockagent {

// The parts of the path of a mount's folder:
//   .../pods/UID/volumes/VENDOR~DRIVER/NAME
//   .../plugins/kubernetes.io/flexvolume/VENDOR/DRIVER/mounts/NAME     (no pod)
struct VolumeFolder {
  std::string pod_uid;  // empty: pods share the mount
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

// INVALID_ARGUMENT: the folder is not one of a pod's volume, the options do not name the pod, or
// the pod's uid in the options is not the folder's. The volume's name and the driver come from the
// folder, because the kubelet made the folder, but the volume's own options may replace those of
// the kubelet.
base::StatusOr<MountCall> ReadMountCall(const std::string& mount_dir, std::string_view options);

}  // namespace berth::blockagent
