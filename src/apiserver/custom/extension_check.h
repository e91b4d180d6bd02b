// Checks the x-kubernetes-* extensions of one schema: list and map types, and the texts of rules.
#pragma once

#include <string>
#include <string_view>

#include "apiserver/formats/field_errors.h"

namespace berth::apiserver {

// True if `schema` has a member `name`, even an empty one.
bool HasMember(const base::Json& schema, std::string_view name);

// Checks only `schema` itself, not the schemas below it. `field` is its path in the definition.
void CheckExtensions(const base::Json& schema, const std::string& field, FieldErrors& errors);

}  // namespace berth::apiserver
