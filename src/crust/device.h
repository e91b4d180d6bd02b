// Questions about a block device that its number identifies. If the path leads to another device by
// now, that device is not used. Each question is asked in a child process with a deadline.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/status.h"
#include "crust/mount_plan.h"

namespace berth::crust {

// Gives the device's size in bytes. FAILED_PRECONDITION: the path leads to another device.
// NOT_FOUND: the path leads to none.
base::StatusOr<int64_t> DeviceSize(const Device& device);

// Waits until nobody has the device mounted or open exclusively, because the kernel frees a mount
// some time after its last process has ended. A device that is gone counts as free.
// FAILED_PRECONDITION: somebody still has it; the message names who.
base::Status WaitUntilDeviceIsFree(const Device& device, std::chrono::milliseconds patience);

}  // namespace berth::crust
