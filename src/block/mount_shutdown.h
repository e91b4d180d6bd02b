// Shuts mounted file systems down by force, so that they write nothing more.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/status.h"
#include "platform/devices/loop_device.h"
#include "platform/mounts/mounter.h"

namespace berth::block {

// Shuts down the file system that is mounted from `device` (only its path and number are used), as
// long as the device still is the attachment `sequence` (ReadDiskSequence in
// platform/devices/loop_table.h). The file system then writes nothing more, in any mount namespace.
// Sets `mounted` to whether a mount of the device was found; OK if there is none. Fails if the file
// system does not support a shutdown (btrfs does not), does not answer within `patience`, or no
// longer is on that attachment.
base::Status ShutDownMounts(platform::Mounter& mounter, const platform::LoopDevice& device,
                            uint64_t sequence, std::chrono::milliseconds patience, bool& mounted);

}  // namespace berth::block
