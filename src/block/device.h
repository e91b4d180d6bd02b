// Operations on a volume's device, except mounting it.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "platform/devices/loop_device.h"

namespace berth::block {

// Makes writes to the device fail, or succeed again. Set it back before the device is detached,
// because the kernel keeps this setting with the device number, also for the next image there.
base::Status SetReadOnly(const platform::LoopDevice& device, bool read_only);

// Writes out what the device's own cache holds. `exclusive`: FAILED_PRECONDITION where something
// has the device mounted.
base::Status Flush(const platform::LoopDevice& device, bool exclusive);

// Opens a device if it still is the attachment `sequence` (ReadDiskSequence in
// platform/devices/loop_table.h). The check is needed because the device number may belong to
// another image by now; while the device is open, it stays that attachment. Gives a descriptor for
// reading, or a negative errno; -ENODEV: it is another attachment, or none. Makes system calls
// only, so that a forked child may call it.
int OpenAttachment(const char* device, uint64_t sequence);

}  // namespace berth::block
