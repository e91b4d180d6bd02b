// Checks that Kubernetes would accept a schema for custom resources: it must be structural, and
// must not have the parts of OpenAPI that Kubernetes does not support.
#pragma once

#include <string>

#include "apiserver/formats/field_errors.h"

namespace berth::apiserver {

// Checks `schema`, an openAPIV3Schema whose members have the right types; `field` is its path in
// the definition. `has_status`: the version has a status subresource. The messages are those of
// apiextensions. CheckDefaults and CompileRules check the parts that need the whole schema
// (defaults, rules in CEL).
void CheckSchema(const base::Json& schema, const std::string& field, bool has_status,
                 FieldErrors& errors);

struct StructuralSchema;

// Checks that defaults fit the schema and have no members that would be pruned.
void CheckDefaults(const StructuralSchema& schema, const std::string& field, FieldErrors& errors);

}  // namespace berth::apiserver
