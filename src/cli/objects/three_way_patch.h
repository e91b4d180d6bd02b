// The patch that `berth apply` sends: what changed in the manifest since it was last applied.
#pragma once

#include "base/json.h"

namespace berth::cli {

inline constexpr std::string_view kLastAppliedAnnotation =
    "kubectl.kubernetes.io/last-applied-configuration";

// A JSON merge patch (RFC 7386) that brings `live` to `wanted`. It sets the members of `wanted`
// that `live` lacks or has with another value, and removes the members that `last_applied` had and
// `wanted` no longer has; what others wrote stays. An array is replaced as a whole; but unless
// `last_applied` has another one there, members that the server filled in do not count as a
// difference. An empty object means that there is nothing to do.
base::Json ThreeWayPatch(const base::Json& last_applied, const base::Json& wanted,
                         const base::Json& live);

}  // namespace berth::cli
