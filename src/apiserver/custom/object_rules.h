// x-kubernetes-validations: the rules in CEL that a schema holds.
#pragma once

#include <string>

#include "apiserver/custom/structural_schema.h"
#include "apiserver/formats/field_errors.h"

namespace berth::apiserver {

// Compiles all rules of `schema`, whose tree must have been made (schema_tree.h). A rule that does
// not compile is an error at its place below `field`, the path of the schema in the definition.
void CompileRules(StructuralSchema& schema, const std::string& field, FieldErrors& errors);

// Runs the rules on an object; `old` is the object before an update, or null. All rules together
// have a budget, and it is an error to exceed it.
void CheckRules(const StructuralSchema& schema, const Json& object, const Json* old,
                FieldErrors& errors);

}  // namespace berth::apiserver
