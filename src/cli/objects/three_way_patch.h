// The patch that `berth apply` sends: what changed in the manifest since it was last applied.
#pragma once

#include "base/json.h"

namespace berth::cli {

inline constexpr std::string_view kLastAppliedAnnotation =
    "kubectl.kubernetes.io/last-applied-configuration";

// A JSON merge patch (RFC 7386) that brings `live` to `wanted`: members that `wanted` has and
// `live` has otherwise are set, members that `last_applied` had and `wanted` has no more are
// removed, and what others wrote stays. Arrays are replaced whole, unless `wanted`'s agrees with
// `live`'s but for members that the server filled in. An empty object: nothing to do.
base::Json ThreeWayPatch(const base::Json& last_applied, const base::Json& wanted,
                         const base::Json& live);

}  // namespace berth::cli
