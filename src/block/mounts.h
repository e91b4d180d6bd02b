// Which lines of the mount table have to do with a volume's device.
#pragma once

#include <string_view>

#include "platform/devices/loop_device.h"
#include "platform/mounts/mounted_device.h"
#include "platform/mounts/mounter.h"

namespace berth::block {

// The mount shows the file system on `device`.
inline bool ShowsFileSystemOf(const platform::MountEntry& mount,
                              const platform::LoopDevice& device) {
  return platform::ShowsFileSystemOf(mount, device.path, device.device);
}

// The mount is a bind of the node of `device` itself, as a published raw block volume is. Its root
// within the file system of /dev is then the name of the node, for example "/loop3".
inline bool ShowsNodeOf(const platform::MountEntry& mount, const platform::LoopDevice& device) {
  const std::string_view path = device.path;
  return (mount.fs_type == "devtmpfs" || mount.fs_type == "tmpfs") &&
         mount.root == path.substr(path.rfind('/'));
}

}  // namespace berth::block
