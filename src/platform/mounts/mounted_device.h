// Recognises the lines of the mount table that show a block device's file system.
#pragma once

#include <sys/sysmacros.h>
#include <sys/types.h>

#include <string_view>

#include "platform/mounts/mounter.h"

namespace berth::platform {

// Whether `mount` shows the file system of the device with this path and number. For btrfs `path`
// is compared with the mount's source, because the table shows another device number.
inline bool ShowsFileSystemOf(const MountEntry& mount, std::string_view path, dev_t number) {
  if (mount.fs_type == "btrfs") return mount.source == path;
  return makedev(mount.major, mount.minor) == number;
}

}  // namespace berth::platform
