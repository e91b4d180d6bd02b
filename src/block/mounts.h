// Tells which entries of the mount table belong to a volume's device.
#pragma once

#include <string_view>

#include "platform/devices/loop_device.h"
#include "platform/mounts/mounted_device.h"
#include "platform/mounts/mounter.h"

namespace berth::block {

// Whether the mount shows the file system on `device`.
inline bool ShowsFileSystemOf(const platform::MountEntry& mount,
                              const platform::LoopDevice& device) {
  return platform::ShowsFileSystemOf(mount, device.path, device.device);
}

// Whether the mount is a bind mount of the device node of `device` itself, as a published raw block
// volume is. Its root within the file system of /dev is then the name of the device node, for
// example "/loop3".
inline bool ShowsNodeOf(const platform::MountEntry& mount, const platform::LoopDevice& device) {
  const std::string_view path = device.path;
  return (mount.fs_type == "devtmpfs" || mount.fs_type == "tmpfs") &&
         mount.root == path.substr(path.rfind('/'));
}

}  // namespace berth::block
