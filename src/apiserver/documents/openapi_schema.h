// The types of fields in OpenAPI's form: version 2, which kubectl up to 1.26 reads, and version 3.
//
// Pure. A schema has extensions that OpenAPI does not know: how its lists and maps are merged
// (x-kubernetes-list-type, x-kubernetes-patch-strategy ...) and which kinds it describes
// (x-kubernetes-group-version-kind). `kubectl explain`, `apply` and client-side validation read
// them.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "api/schema/schema.h"
#include "base/json.h"

namespace berth::apiserver {

using base::Json;

enum class OpenApi { kV2, kV3 };

// {"$ref": ...} to the definition `name`.
Json SchemaReference(std::string_view name, OpenApi version);

// The definition of a schema that has a name. Other named schemas appear in it only as references.
Json SchemaDefinition(const api::Schema& schema, OpenApi version);

// Adds to `reached` the named schemas to which the definition of `schema` refers, directly or
// through other definitions. `schema` itself is added if it has a name.
void CollectNamed(const api::Schema& schema, std::set<const api::Schema*>& reached);

// {"group", "version", "kind"}: how x-kubernetes-group-version-kind names a kind.
Json KindReference(std::string_view group, std::string_view version, std::string_view kind);

}  // namespace berth::apiserver
