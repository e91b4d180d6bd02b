// Whether a schema is one that Kubernetes accepts for custom resources: structural, and without
// the parts of OpenAPI that it does not support.
#pragma once

#include <string>

#include "apiserver/formats/field_errors.h"

namespace berth::apiserver {

// `schema` is an openAPIV3Schema whose members have the right types; `field` its path in the
// definition. `has_status`: the version has a status subresource. The messages are those of
// apiextensions. What needs the schema as a whole (defaults, rules in CEL) is checked by
// CheckDefaults and CompileRules.
void CheckSchema(const base::Json& schema, const std::string& field, bool has_status,
                 FieldErrors& errors);

struct StructuralSchema;

// Defaults must fit the schema and have no members that would be pruned.
void CheckDefaults(const StructuralSchema& schema, const std::string& field, FieldErrors& errors);

}  // namespace berth::apiserver
