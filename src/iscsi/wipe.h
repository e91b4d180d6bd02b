// Overwrites the LUN of a volume that was deleted with zeroes, and gives it back.
//
// It writes from the end to the beginning, so that the LUN looks blank, and can be taken again,
// only when all of it is blank. One call writes for some seconds, and the next one goes on where it
// ended.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "iscsi/logical_unit.h"
#include "iscsi/settings.h"

namespace berth::iscsi {

// The call `wipe` (calls.h). `request` has "from": the bytes at the front that are left. Writes
// until `until`. Returns {"from", "done", "kept"}; done: the LUN is free, or `kept`: it had no
// reservation, so nothing shows that it still is that volume's, and it was not written.
// FAILED_PRECONDITION: another node, or somebody else, has it.
base::StatusOr<base::Json> WipeUnit(LogicalUnit& unit, const Settings& settings,
                                    const base::Json& request, Deadline until);

}  // namespace berth::iscsi
