// What is done to a volume's device besides mounting it.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "platform/devices/loop_device.h"

namespace berth::block {

// Lets writes to the device fail, or succeed again. The kernel keeps this with the device's number,
// whatever image comes behind it next: it is to be taken back before the device is detached.
base::Status SetReadOnly(const platform::LoopDevice& device, bool read_only);

// Writes out what the device's own cache holds. `exclusive`: FAILED_PRECONDITION where something
// has the device mounted.
base::Status Flush(const platform::LoopDevice& device, bool exclusive);

// Opens a device that still is the attachment `sequence` (DiskSequence in
// platform/devices/loop_table.h), which it stays for as long as it is open: else its number may be
// another image's by now. Gives a descriptor for reading, or a negative errno; -ENODEV: it is
// another attachment, or none. For children: by system calls alone.
int OpenAttachment(const char* device, uint64_t sequence);

}  // namespace berth::block
