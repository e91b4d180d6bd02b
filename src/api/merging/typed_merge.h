// Merging of an applied configuration into an object, and taking fields out of one, by Schema
// (null: a type that is not known, see typed_value.h). Pure.
#pragma once

#include "api/merging/field_set.h"
#include "api/schema/schema.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::api {

// INVALID_ARGUMENT with the path for a configuration that cannot be merged: a field that the schema
// doesn't know, an item of a map list without its keys, one of a set that is no plain value, or the
// same twice.
base::Status CheckApplied(const Schema* schema, const base::Json& config);

// `live` with what `config` states. Nothing goes: objects, maps, sets and map lists keep what
// `config` doesn't name; all else is replaced. Items that both have stand in `config`'s order.
// `config` has passed CheckApplied. Members may be null where `config` says so.
base::Json MergeApplied(const Schema* schema, const base::Json& live, const base::Json& config);

// `object` without the members and items in `fields`. What is empty thereafter becomes null.
base::Json RemoveFields(const Schema* schema, const base::Json& object, const FieldSet& fields);

}  // namespace berth::api
