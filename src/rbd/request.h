// What berth-rbd gets on standard input and gives on standard output: one JSON object each.
#pragma once

#include <functional>

#include "base/json.h"
#include "base/status.h"

namespace berth::rbd {

// Longer input is refused.
inline constexpr size_t kLongestRequest = 60000;

// Reads the whole of the descriptor. INVALID_ARGUMENT: it is no JSON object. RESOURCE_EXHAUSTED: it
// is longer than kLongestRequest.
base::StatusOr<base::Json> ReadRequest(int fd);

// Carries out the call that the request names, and gives its result. INVALID_ARGUMENT: there is no
// such call, or a member is missing or wrong. Progress of a deletion goes to `report_progress`.
base::StatusOr<base::Json> RunCall(const base::Json& request,
                                   const std::function<void(double)>& report_progress);

}  // namespace berth::rbd
