// Questions about a block device that is known by its number; a path that leads to another one by
// now is no answer. In children with deadlines.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/status.h"
#include "crust/mount_plan.h"

namespace berth::crust {

// In bytes. FAILED_PRECONDITION: the path leads to another device; NOT_FOUND.
base::StatusOr<int64_t> DeviceSize(const Device& device);

// Until nobody has it mounted or open for himself: the kernel lets go of a mount some time after
// its last process is gone. A device that is gone is free. FAILED_PRECONDITION: somebody still has
// it, whom the message names.
base::Status WaitUntilDeviceIsFree(const Device& device, std::chrono::milliseconds patience);

}  // namespace berth::crust
