// Checks the bounds that the CSI specification ("Size Limits") sets to every string, map and number
// of a message. Pure functions.
#pragma once

#include <google/protobuf/message.h>

#include <climits>

#include "base/status.h"

namespace berth::rpc {

struct CsiLimits {
  size_t factor = 1;  // the specification's sizes, except those of paths, are multiplied by it
  int max_repeated = 1024;
};

// The bounds of the answers that Berth accepts from a driver. Some drivers exceed the specification
// (volume ids of more than 128 bytes), which does no harm; but parts of the answers are kept in API
// objects, and so need a bound.
inline constexpr CsiLimits kAnswerLimits = {.factor = 8, .max_repeated = INT_MAX};

// INVALID_ARGUMENT naming the field: a string or map that is too large, a zero byte in a string, a
// negative number, too many entries. Values are not quoted. Paths are bounded by PATH_MAX.
base::Status CheckLimits(const google::protobuf::Message& message, const CsiLimits& limits = {});

}  // namespace berth::rpc
