// Which lines of the mount table show a block device's file system.
#pragma once

#include <sys/sysmacros.h>
#include <sys/types.h>

#include <string_view>

#include "platform/mounts/mounter.h"

namespace berth::platform {

// Of the device with that path and number. btrfs has a device number of its own in the table.
inline bool ShowsFileSystemOf(const MountEntry& mount, std::string_view path, dev_t number) {
  if (mount.fs_type == "btrfs") return mount.source == path;
  return makedev(mount.major, mount.minor) == number;
}

}  // namespace berth::platform
