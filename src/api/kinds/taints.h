// Taints of nodes and the tolerations of pods. Pure.
#pragma once

#include <string_view>

#include "base/json.h"

namespace berth::api {

// Returns {key, value, effect}, without `value` if it is "".
base::Json MakeTaint(std::string_view key, std::string_view value, std::string_view effect);

// Whether the toleration matches the taint by effect, key and value, as in Kubernetes.
bool Tolerates(const base::Json& toleration, const base::Json& taint);

// Whether one of the tolerations matches the taint.
bool AnyTolerates(const base::Json& tolerations, const base::Json& taint);

// The first taint that has one of `effects` and is not tolerated; nullptr if there is none.
const base::Json* FindUntolerated(const base::Json& taints, const base::Json& tolerations,
                                  std::initializer_list<std::string_view> effects);

}  // namespace berth::api
