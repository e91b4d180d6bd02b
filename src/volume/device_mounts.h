// Finds the mounts of a block device that a volume is on.
#pragma once

#include <sys/types.h>

#include "base/status.h"
#include "platform/mounts/mounter.h"
#include "volume/host.h"

namespace berth::volume {

// Whether `mount` shows the file system on the block device `number`. The mount table has a number
// of its own for btrfs, so there the device to which the mount's source leads is compared. Errors
// come from Host::LookAtDevices.
base::StatusOr<bool> ShowsDevice(Host& host, const platform::MountEntry& mount, dev_t number);

}  // namespace berth::volume
