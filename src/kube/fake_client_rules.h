// Helpers that only the files of FakeClient share.
#pragma once

#include <string>
#include <string_view>

#include "kube/fake_client.h"

namespace berth::kube::fake {

// Returns the field `field` of metadata if it is a string; else "".
inline std::string Meta(const Json& object, std::string_view field) {
  return base::json::String(object, {"metadata", field});
}

inline Status NotFound(const api::KindInfo& kind, std::string_view name) {
  return base::Error(base::StatusCode::kNotFound, "{} \"{}\" not found", kind.group_resource(),
                     name);
}

}  // namespace berth::kube::fake
