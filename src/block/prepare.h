// Readies the file system of a mapped volume for its mount, by what the volume's record says is in
// it (Content, record.h).
//
//   blank       probe: nothing at all ─▶ record `formatting` ─▶ mkfs with the recorded UUID ─▶
//   `formatted` formatting  emptied, then as blank: it was never mounted copied      probe: the
//   right kind ─▶ a new UUID ─▶ `formatted` with that UUID formatted   probe: the right kind and
//   UUID
//
// then grown if its image grew, else checked as far as every mount may afford.
#pragma once

#include "base/status.h"
#include "block/pools/pool.h"
#include "platform/processes/exec.h"

namespace berth::block {

// The caller holds the volume's lock and has mapped it to `device`; it is not mounted. Gives the
// device to mount, which may be another one then. FAILED_PRECONDITION: something else is on the
// device, which the message names; it is left as it is.
base::StatusOr<platform::LoopDevice> PrepareFileSystem(Pool& pool, platform::Exec& exec,
                                                       const std::string& volume_id,
                                                       const platform::LoopDevice& device);

}  // namespace berth::block
