// Finds the mounts of a block device that a volume is on, and grows its file system.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/status.h"
#include "platform/mounts/mounter.h"
#include "volume/host.h"

namespace berth::volume {

// Whether `mount` shows the file system on the block device `number`. The mount table has a number
// of its own for btrfs, so there the device to which the mount's source leads is compared. Errors
// come from Host::LookAtDevices.
base::StatusOr<bool> ShowsDevice(Host& host, const platform::MountEntry& mount, dev_t number);

struct Growth {
  std::string device;
  std::string mount_point;
  int64_t bytes = 0;  // what the device must have at least
};
// Grows the file system on a mounted device to the device's size, by utilities that `exec` runs.
// FAILED_PRECONDITION: the device is too small, or is not mounted there. UNIMPLEMENTED: its file
// system does not grow.
base::Status GrowFileSystem(Host& host, platform::Exec& exec, const Growth& growth);

}  // namespace berth::volume
