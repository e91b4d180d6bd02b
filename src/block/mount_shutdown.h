// Ends the writing of file systems by force.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/status.h"
#include "platform/devices/loop_device.h"
#include "platform/mounts/mounter.h"

namespace berth::block {

// Shuts down whatever file system is mounted of `device` (its path and number) while that is the
// attachment `sequence` (DiskSequence in platform/devices/loop_table.h), in whichever mount
// namespace: it writes nothing any more. `mounted` tells whether there was one. Fails where the
// file system cannot, as btrfs, or does not answer within `patience`, or is none of that
// attachment's any more.
base::Status ShutDownMounts(platform::Mounter& mounter, const platform::LoopDevice& device,
                            uint64_t sequence, std::chrono::milliseconds patience, bool& mounted);

}  // namespace berth::block
