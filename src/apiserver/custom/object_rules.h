// x-kubernetes-validations: the rules in CEL that a schema holds.
#pragma once

#include <string>

#include "apiserver/custom/structural_schema.h"
#include "apiserver/formats/field_errors.h"

namespace berth::apiserver {

// Compiles all rules of `schema`, whose tree must have been made (schema_tree.h). What does not
// compile is an error at its place below `field`, the path of the schema in the definition.
void CompileRules(StructuralSchema& schema, const std::string& field, FieldErrors& errors);

// Runs them on an object; `old` is the one before an update, or null. All together have a budget;
// what exceeds it is an error.
void CheckRules(const StructuralSchema& schema, const Json& object, const Json* old,
                FieldErrors& errors);

}  // namespace berth::apiserver
