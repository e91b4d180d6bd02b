// Finds out which device a path leads to, and how large a device is.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace berth::platform {

struct DeviceFile {
  bool present = false;
  bool block = false;  // a block device; false for a file, a folder, a character device
  dev_t number = 0;    // of the device
};

// Calls stat(2) on each path, in one child with a deadline, because a path can lead into a file
// system that no longer answers. Symlinks are followed, and nothing is opened. Returns one entry
// for each path, in the same order; one that cannot be read is not `present`. DEADLINE_EXCEEDED.
base::StatusOr<std::vector<DeviceFile>> LookAtDevices(
    const std::vector<std::string>& paths,
    std::chrono::milliseconds timeout = std::chrono::seconds(10));

// Reads the size of an open block device. 0 or an errno; ENOTTY: it is none. Async-signal-safe. The
// device's server may not answer, so a caller that does not know the device runs in a child.
int ReadBlockDeviceSize(int fd, uint64_t& bytes);
// The same for the device at `path`.
int ReadBlockDeviceSize(const char* path, uint64_t& bytes);

}  // namespace berth::platform
