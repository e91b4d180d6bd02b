// Checks an object against its schema: types, values, required members, and no duplicates in lists
// that are sets or maps. The messages are those of apiextensions.
#pragma once

#include <string>

#include "apiserver/custom/structural_schema.h"
#include "apiserver/formats/field_errors.h"

namespace berth::apiserver {

// `field` is the path of `value` ("" for a whole object). With `old`, the value before an update,
// unchanged parts are not checked, because the schema may have become stricter meanwhile.
void CheckObject(const StructuralSchema& schema, const Json& value, const Json* old,
                 const std::string& field, FieldErrors& errors);

}  // namespace berth::apiserver
