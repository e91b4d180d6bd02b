// Kubernetes' order of API versions: v10, v2, v1, v2beta1, v1beta2, v1alpha1, then other names.
#pragma once

#include <string_view>

namespace berth::api {

// Whether clients should prefer version `a` to `b`: stable before beta before alpha, then the
// higher number; names that are not Kubernetes versions come last, by alphabet. A strict weak
// order.
bool IsPreferredVersion(std::string_view a, std::string_view b);

}  // namespace berth::api
