// Taints of nodes and the tolerations of pods. Pure.
#pragma once

#include <string_view>

#include "base/json.h"

namespace berth::api {

// {key, value, effect}; "" for no value.
base::Json MakeTaint(std::string_view key, std::string_view value, std::string_view effect);

// Whether one toleration covers the taint: by effect, key and value.
bool Tolerates(const base::Json& toleration, const base::Json& taint);

// Whether one of the tolerations covers the taint.
bool AnyTolerates(const base::Json& tolerations, const base::Json& taint);

// The first taint with one of the effects that no toleration covers; nullptr if there is none.
const base::Json* FindUntolerated(const base::Json& taints, const base::Json& tolerations,
                                  std::initializer_list<std::string_view> effects);

}  // namespace berth::api
