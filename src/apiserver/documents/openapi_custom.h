// Custom resources in OpenAPI: the schemas of their definitions, in a form that clients of each
// OpenAPI version can read. Pure.
#pragma once

#include <string>

#include "api/kind_info.h"
#include "apiserver/documents/openapi_schema.h"

namespace berth::apiserver {

// "io.k8s.storage.snapshot.v1.VolumeSnapshot": the parts of the group in reverse order, the
// version, the kind.
std::string CustomDefinitionName(const api::KindInfo& info);

// The definition of a custom resource from its CustomResourceDefinition's openAPIV3Schema.
Json MakeCustomDefinition(const Json& schema, OpenApi version);

// The definition of the list of any kind whose objects are of the definition `item`.
Json MakeListDefinition(const std::string& item, std::string_view kind, OpenApi version);

}  // namespace berth::apiserver
