// Reads a block device or its size, and waits until it is free. The device's number identifies it:
// if its path leads to another device by now, that device is not used. A child process with a
// deadline opens the device, because the open may block in the kernel.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "crust/mount_plan.h"

namespace berth::crust {

// Returns the device's size in bytes. FAILED_PRECONDITION: the path leads to another device.
// NOT_FOUND: the path does not exist. DEADLINE_EXCEEDED: the device did not answer in ten seconds.
base::StatusOr<int64_t> ReadDeviceSize(const Device& device);

// Reads the device's first block, past the page cache. OK also if its path leads to another device
// by now, because then nothing is known. DEADLINE_EXCEEDED: the device did not answer in five
// seconds. `alive` is kept until the child process has ended, which may be long after that.
base::Status ReadFirstBlock(const Device& device, std::shared_ptr<void> alive);

// Waits for up to `patience` until the device is neither mounted nor open exclusively. This is
// needed because the kernel frees a mount some time after its last process has ended. A device that
// is gone counts as free. FAILED_PRECONDITION: the device is still in use; the message names the
// processes if they are known.
base::Status WaitUntilDeviceIsFree(const Device& device, std::chrono::milliseconds patience);

}  // namespace berth::crust
