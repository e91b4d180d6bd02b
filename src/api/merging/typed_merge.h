// Merges an applied configuration into an object, and removes fields from an object. The schema may
// be null: the type is unknown (typed_value.h). Pure.
#pragma once

#include "api/merging/field_set.h"
#include "api/schema/schema.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::api {

// INVALID_ARGUMENT with the path: the configuration cannot be merged, because it has a field that
// the schema does not know, an item of a map list without its keys, an item of a set that is not a
// plain value, or the same item twice.
base::Status CheckApplied(const Schema* schema, const base::Json& config);

// Returns `live` with the fields of `config`. No field is removed: objects, maps, sets and map
// lists keep the members and items that `config` does not have; other values are replaced. Items
// that both have are in the order of `config`. `config` must have passed CheckApplied. A member is
// null if it is null in `config`.
base::Json MergeApplied(const Schema* schema, const base::Json& live, const base::Json& config);

// Returns `object` without the members and items in `fields`. An object or list that becomes empty
// by this is null.
base::Json RemoveFields(const Schema* schema, const base::Json& object, const FieldSet& fields);

}  // namespace berth::api
