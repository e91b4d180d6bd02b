// Which lines of the mount table show a block device's file system.
#pragma once

#include <sys/sysmacros.h>
#include <sys/types.h>

#include <string_view>

#include "platform/mounts/mounter.h"

namespace berth::platform {

// Whether `mount` is of the device with that path and number. For btrfs the table shows another
// device number, so the source is compared.
inline bool ShowsFileSystemOf(const MountEntry& mount, std::string_view path, dev_t number) {
  if (mount.fs_type == "btrfs") return mount.source == path;
  return makedev(mount.major, mount.minor) == number;
}

}  // namespace berth::platform
