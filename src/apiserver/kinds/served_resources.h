// The verbs and subresources of each kind, for discovery and OpenAPI. Pure.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "api/kind_info.h"

namespace berth::apiserver {

// The kinds of one snapshot, in the order in which they are listed.
using Kinds = std::span<const api::KindInfo* const>;

struct Subresource {
  std::string_view name;
  // The kind that is read and written there, such as "TokenRequest" of authentication.k8s.io/v1.
  std::string_view kind;
  std::string_view group;
  std::string_view version;
  std::vector<std::string_view> verbs;
};

std::vector<std::string_view> VerbsOf(const api::KindInfo& info);
std::vector<Subresource> SubresourcesOf(const api::KindInfo& info);

}  // namespace berth::apiserver
