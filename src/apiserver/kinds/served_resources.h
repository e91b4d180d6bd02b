// What can be done with each kind: its verbs and subresources, as discovery and OpenAPI tell them.
// Pure.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "api/kind_info.h"

namespace berth::apiserver {

// A moment's kinds, in the order in which they are listed.
using Kinds = std::span<const api::KindInfo* const>;

struct Subresource {
  std::string_view name;
  // Of what is read and written there: "TokenRequest" of authentication.k8s.io/v1.
  std::string_view kind;
  std::string_view group;
  std::string_view version;
  std::vector<std::string_view> verbs;
};

std::vector<std::string_view> VerbsOf(const api::KindInfo& info);
std::vector<Subresource> SubresourcesOf(const api::KindInfo& info);

}  // namespace berth::apiserver
