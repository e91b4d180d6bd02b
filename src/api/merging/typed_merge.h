// Merges an applied configuration into an object, and removes fields from one, by Schema (null: the
// type is unknown, see typed_value.h). Pure.
#pragma once

#include "api/merging/field_set.h"
#include "api/schema/schema.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::api {

// INVALID_ARGUMENT with the path for a configuration that cannot be merged: a field that the schema
// does not know, an item of a map list without its keys, an item of a set that is no plain value,
// or the same item twice.
base::Status CheckApplied(const Schema* schema, const base::Json& config);

// `live` with what `config` states. Nothing is removed: objects, maps, sets and map lists keep what
// `config` does not name; all else is replaced. Items that both have stand in `config`'s order.
// `config` must have passed CheckApplied. Members may be null if `config` says so.
base::Json MergeApplied(const Schema* schema, const base::Json& live, const base::Json& config);

// `object` without the members and items in `fields`. What becomes empty by this is null.
base::Json RemoveFields(const Schema* schema, const base::Json& object, const FieldSet& fields);

}  // namespace berth::api
