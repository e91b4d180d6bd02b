// x-kubernetes-validations: the validation rules of a schema, which are written in CEL.
#pragma once

#include <string>

#include "apiserver/custom/structural_schema.h"
#include "apiserver/formats/field_errors.h"

namespace berth::apiserver {

// Compiles all rules of `schema`; MakeSchemaTree (schema_tree.h) must have run before. Adds an
// error for each rule that does not compile, at the rule's path below `field`, which is the path of
// the schema in the definition.
void CompileRules(StructuralSchema& schema, const std::string& field, FieldErrors& errors);

// Runs the rules on an object, and adds an error for each rule that it breaks. `old` is the object
// before an update; null: a new object. All rules together have a budget; a rule that exceeds it is
// an error, and the rules after it do not run.
void CheckRules(const StructuralSchema& schema, const Json& object, const Json* old,
                FieldErrors& errors);

}  // namespace berth::apiserver
