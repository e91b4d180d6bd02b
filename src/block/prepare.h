// Makes the file system of a mapped volume ready for its mount. What happens depends on the content
// that the volume's record names (Content, record.h).
//
//   blank ────── nothing is found ─▶ record `formatting` ─┬─▶ mkfs, recorded UUID ─▶ `formatted`
//   formatting ─ the image is emptied: never mounted ─────┘
//   copied ───── the right type is found ─▶ new UUID ─▶ `formatted` ─┬─▶ grown if its image grew,
//   formatted ── the right type and UUID are found ──────────────────┘   else a quick check
//
// Anything else on the device is refused and stays unchanged.
//
// Last, the file system is grown if its image grew; else it gets a check that is quick enough for
// every mount.
#pragma once

#include "base/status.h"
#include "block/pools/pool.h"
#include "platform/processes/exec.h"

namespace berth::block {

// The caller holds the volume's lock and has mapped it to `device`; it is not mounted. Gives the
// device to mount, which may differ from `device`. FAILED_PRECONDITION: something else is on the
// device, which the message names; it is left as it is.
base::StatusOr<platform::LoopDevice> PrepareFileSystem(Pool& pool, platform::Exec& exec,
                                                       const std::string& volume_id,
                                                       const platform::LoopDevice& device);

}  // namespace berth::block
