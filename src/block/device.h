// What is done to a volume's device besides mounting it.
#pragma once

#include "base/status.h"
#include "platform/loop_device.h"

namespace berth::block {

// Lets writes to the device fail, or succeed again. The kernel keeps this with the device's number,
// whatever image comes behind it next: it is to be taken back before the device is detached.
base::Status SetReadOnly(const platform::LoopDevice& device, bool read_only);

// Writes out what the device's own cache holds. `exclusive`: FAILED_PRECONDITION where something
// has the device mounted.
base::Status Flush(const platform::LoopDevice& device, bool exclusive);

}  // namespace berth::block
