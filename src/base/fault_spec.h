// The faults in BERTH_FAULTS, which is a comma-separated list of
//
//   [ROLE/]NAME=ACTION[@WHEN]
//
//   ROLE    only in the process of that role, the subcommand of `berth`: csi-driver/NAME
//   NAME    a point's name; * stands for any text in it: rpc.csi.*.after
//   ACTION  crash          the process ends at once, as by SIGKILL
//           error[:CODE]   the point returns that code, else INTERNAL: error:RESOURCE_EXHAUSTED
//           delay:MS       the point takes that long
//           cut            at the '.after' of a request: UNAVAILABLE, as if the answer were lost
//   WHEN    N              at the N-th passage alone, from 1: @1 is once
//           P%SEED         at P of 100 passages; the seed and the point's name decide at which
//           (none)         always
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace berth::base {

struct FaultSpec {
  enum class Action { kCrash, kError, kDelay, kCut };
  std::string role;  // empty: all roles
  std::string name;  // may have '*'
  Action action = Action::kCrash;
  StatusCode code = StatusCode::kInternal;
  std::chrono::milliseconds delay{0};
  uint64_t at_passage = 0;  // counted from 1; 0: `percent` decides
  uint32_t percent = 100;
  uint64_t seed = 0;

  // Whether `name` is, or matches, the name `point`.
  bool MatchesName(std::string_view point) const;
  // Whether the fault acts at this passage of `point`, counted from 1. `point` must match `name`.
  bool ActsAt(std::string_view point, uint64_t passage) const;
};

// Reads the text of BERTH_FAULTS. INVALID_ARGUMENT quotes the item that is malformed, and lists
// what is allowed there.
StatusOr<std::vector<FaultSpec>> ParseFaults(std::string_view text);

}  // namespace berth::base
