// Finds out which device a path leads to.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"

namespace berth::platform {

struct DeviceFile {
  bool present = false;
  bool block = false;  // a block device; false for a file, a folder, a character device
  dev_t number = 0;    // of the device
};

// Looks at each path, through symlinks, in one child with a deadline, because a path can lead into
// a file system that no longer answers. Nothing is opened. DEADLINE_EXCEEDED.
base::StatusOr<std::vector<DeviceFile>> LookAtDevices(
    const std::vector<std::string>& paths,
    std::chrono::milliseconds timeout = std::chrono::seconds(10));

}  // namespace berth::platform
