// Fault points: named places at which a test can make a process fail.
//
//   RETURN_IF_ERROR(base::FaultPoint("store.commit.before"));
//
// Off (the usual state), a point costs one relaxed load. BERTH_FAULTS in the environment switches
// points on, as a comma-separated list of NAME=ACTION with ACTION one of
//   crash       the process ends at once, as by SIGKILL
//   error       the point returns INTERNAL
//   crash@N     as crash, at the N-th passage (from 1)
// BERTH_FAULT_ONCE names a folder in which a crash leaves a file with the point's name, and where
// such a file lies, no process crashes there again: one crash, however often the process is started
// anew. BERTH_FAULT_LOG names a file to which each point's name is appended when it is first
// passed.
#pragma once

#include <string_view>

#include "base/status.h"

namespace berth::base {

// `name` is ROOM.OPERATION.PLACE in lower case, and a literal: it must outlive the process.
Status FaultPoint(std::string_view name);

// Reads the environment. Called once by each program before threads start; without it no point is
// on.
Status InitFaultPoints();

}  // namespace berth::base
