// The states of a claim's resize (status.allocatedResourceStatuses.storage), and sizes in bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/quantity.h"

namespace berth::controllers::resizer {

inline constexpr std::string_view kControllerInProgress = "ControllerResizeInProgress";
inline constexpr std::string_view kControllerInfeasible = "ControllerResizeInfeasible";
inline constexpr std::string_view kNodePending = "NodeResizePending";
inline constexpr std::string_view kNodeInProgress = "NodeResizeInProgress";
inline constexpr std::string_view kNodeInfeasible = "NodeResizeInfeasible";

// On a volume whose file system is smaller than the volume: the claim's capacity before the
// expansion.
inline constexpr std::string_view kPreResizeCapacity =
    "volume.alpha.kubernetes.io/pre-resize-capacity";

// A missing or malformed quantity counts as zero.
inline int64_t BytesOf(const std::string& quantity) {
  return api::ParseBytes(quantity).value_or(0);
}

}  // namespace berth::controllers::resizer
