// Finds the fields that an object has, and the fields in which two objects differ, by Schema (null:
// the type is unknown, see typed_value.h). Fields are leaves, items of set and map lists, keys of
// maps, and everything that is empty. Pure.
#pragma once

#include <span>

#include "api/merging/field_set.h"
#include "api/schema/schema.h"
#include "base/json.h"

namespace berth::api {

// The fields that `object` states, without those in `ignored` and everything below them. If a field
// has children in `ignored`, only the field itself is left out.
FieldSet FieldsOf(const Schema* schema, const base::Json& object, const FieldSet& ignored = {});

struct Comparison {
  FieldSet added;
  FieldSet modified;
  FieldSet removed;

  bool same() const { return added.empty() && modified.empty() && removed.empty(); }
};

// What `after` has and `before` does not, and so on. `added` and `removed` also hold the objects
// and lists around fields that come or go with them.
Comparison CompareFields(const Schema* schema, const base::Json& before, const base::Json& after,
                         const FieldSet& ignored = {});

// Adds to `set` the named fields around its members: the field "spec" of "spec.nodeName", but not
// the key of a map around a field of its value.
FieldSet WithNamedParents(const Schema* schema, const FieldSet& set);

// Converts `sets`, those of the managers of `object`, to the present schema, if they were written
// under a schema in which other lists, maps or objects were atomic.
void FollowSchema(const Schema* schema, const base::Json& object, std::span<FieldSet* const> sets);

}  // namespace berth::api
