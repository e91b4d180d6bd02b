// The operations on a kind, in OpenAPI's form: URLs, verbs, parameters. Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/documents/openapi_schema.h"
#include "apiserver/kinds/served_resources.h"

namespace berth::apiserver {

// Names of the definitions that operations on a kind refer to.
struct KindDefinitions {
  std::string object;
  std::string list;
  bool custom = false;  // a custom resource: no strategic merge patch
};

// The path items of a kind and its subresources: "/api/v1/namespaces/{namespace}/pods" and so on.
std::vector<std::pair<std::string, Json>> MakePathItems(const api::KindInfo& info,
                                                        const KindDefinitions& definitions,
                                                        OpenApi version);

}  // namespace berth::apiserver
