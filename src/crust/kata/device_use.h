// Waits until a device is unused: neither a mount nor a virtual machine has it.
#pragma once

#include <chrono>

#include "base/status.h"
#include "crust/mount_plan.h"

namespace berth::crust::kata {

// Waits for up to `patience` until the device is neither mounted nor claimed, and no process has it
// open: a virtual machine (QEMU) opens its devices without claiming them. A device that is gone
// counts as unused. FAILED_PRECONDITION: it is still in use; the message says by whom.
// DEADLINE_EXCEEDED: this could not be found out.
base::Status WaitUntilDeviceIsUnused(const Device& device, std::chrono::milliseconds patience);

}  // namespace berth::crust::kata
