// Makes the file system of a mapped volume ready for its mount. What happens depends on the content
// that the volume's record names (Content, record.h).
//
//   blank ────── nothing is found ─▶ record `formatting` ─┬─▶ mkfs, recorded UUID ─▶ `formatted`
//   formatting ─ the image is emptied: never mounted ─────┘
//   copied ───── the right type is found ─▶ new UUID ─▶ `formatted` ─┬─▶ grown if its image grew,
//   formatted ── the right type and UUID are found ──────────────────┘   else a quick check
//
// If the device holds anything else, the call fails and the device stays unchanged.
//
// A file system that mkfs made just now is neither grown nor checked.
#pragma once

#include "base/status.h"
#include "block/pools/pool.h"
#include "platform/processes/exec.h"

namespace berth::block {

// The caller holds the volume's lock, and has mapped the volume to `device`, which is not mounted.
// Gives the device to mount, which differs from `device` if the image was emptied.
// FAILED_PRECONDITION: the device holds something else, which the message names, or this node does
// not support the volume's file system. INTERNAL: it is a raw block volume.
base::StatusOr<platform::LoopDevice> PrepareVolume(Pool& pool, platform::Exec& exec,
                                                   const std::string& volume_id,
                                                   const platform::LoopDevice& device);

}  // namespace berth::block
