// The calls of berth-rbd. It reads one JSON object, the request, from standard input, and writes
// one, the result, to standard output.
#pragma once

#include <functional>

#include "base/json.h"
#include "base/status.h"

namespace berth::rbd {

// Longer input is refused.
inline constexpr size_t kLongestRequest = 60000;

// Reads the descriptor to its end. INVALID_ARGUMENT: it is not one JSON object, or is longer than
// kLongestRequest. The message has no part of the text, because the text contains the cluster's
// key.
base::StatusOr<base::Json> ReadRequest(int fd);

// Carries out the call that the request names, and returns its result. INVALID_ARGUMENT: there is
// no such call, or a member is missing or wrong. Other errors are those of the cluster or of the
// call. During a deletion it calls `report_progress` with the part that is done, from 0 to 1.
base::StatusOr<base::Json> RunCall(const base::Json& request,
                                   const std::function<void(double)>& report_progress);

}  // namespace berth::rbd
