// Shapes an object before it is validated: removes unknown members and adds defaults.
#pragma once

#include "apiserver/custom/structural_schema.h"

namespace berth::apiserver {

// Removes the members that the schema neither lists nor preserves. `whole`: `value` is an object
// with apiVersion, kind and metadata, which stay as they are.
void PruneUnknown(const StructuralSchema& schema, Json& value, bool whole);

// Removes members that are null where the schema neither allows null nor has a default.
void DropNulls(const StructuralSchema& schema, Json& value);

// Sets absent members to their defaults, outer members first. A null that the schema does not allow
// counts as absent.
void ApplyDefaults(const StructuralSchema& schema, Json& value);

}  // namespace berth::apiserver
