// Operations on a volume's device, except mounting it.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "platform/devices/loop_device.h"

namespace berth::block {

// Makes the device read-only, or writable again. Make it writable before it is detached, because
// the kernel keeps this setting with the device number, also for the next image there.
base::Status SetReadOnly(const platform::LoopDevice& device, bool read_only);

// Writes out what the device's own cache holds. With `exclusive`, it fails with FAILED_PRECONDITION
// if the device is mounted or another process has it open exclusively.
base::Status FlushDevice(const platform::LoopDevice& device, bool exclusive);

// Opens a device if it still is the attachment `sequence` (ReadDiskSequence in
// platform/devices/loop_table.h). The check is needed because the device number may belong to
// another image by now; while the device is open, it stays that attachment. Returns a descriptor
// for reading, which the caller closes, or a negative errno; -ENODEV: the device is another
// attachment, or none. Makes system calls only, so that a forked child may call it.
int OpenAttachment(const char* device, uint64_t sequence);

}  // namespace berth::block
