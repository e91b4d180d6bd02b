// What BERTH_FAULTS says: a comma-separated list of
//
//   [ROLE/]NAME=ACTION[@WHEN]
//
//   ROLE    only in the process of that role, the subcommand of `berth`: csi-driver/NAME
//   NAME    a point's name; * stands for any text in it: rpc.csi.*.after
//   ACTION  crash          the process ends at once, as by SIGKILL
//           error[:CODE]   the point returns that code, else INTERNAL: error:RESOURCE_EXHAUSTED
//           delay:MS       the point takes that long
//           cut            at a request's answer: UNAVAILABLE, the request done and the answer lost
//   WHEN    N              at the N-th passage alone, from 1: @1 is once
//           P%SEED         at P of 100 passages, which ones the seed decides, for each point apart
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
  std::string role;
  std::string name;
  Action action = Action::kCrash;
  StatusCode code = StatusCode::kInternal;
  std::chrono::milliseconds delay{0};
  uint64_t at_passage = 0;  // 0: not by count
  uint32_t percent = 100;
  uint64_t seed = 0;

  bool Names(std::string_view point) const;
  // Whether the fault acts at this passage of `point`, counted from 1.
  bool ActsAt(std::string_view point, uint64_t passage) const;
};

// INVALID_ARGUMENT names the item and what is possible.
StatusOr<std::vector<FaultSpec>> ParseFaults(std::string_view text);

}  // namespace berth::base
