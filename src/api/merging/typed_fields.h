// Finds the fields of an object, and the fields in which two objects differ. The schema may be
// null: the type is unknown (typed_value.h). Fields are leaves, items of set and map lists, keys of
// maps, and empty objects. Pure.
#pragma once

#include <span>

#include "api/merging/field_set.h"
#include "api/schema/schema.h"
#include "base/json.h"

namespace berth::api {

// The fields of `object`, without those in `ignored` and all fields below them. If a field has
// children in `ignored`, only the field itself and those children are left out.
FieldSet FieldsOf(const Schema* schema, const base::Json& object, const FieldSet& ignored = {});

struct Comparison {
  FieldSet added;
  FieldSet modified;
  FieldSet removed;

  bool same() const { return added.empty() && modified.empty() && removed.empty(); }
};

// Compares two objects: `added` has the fields that only `after` has, `removed` those that only
// `before` has, `modified` those whose values differ. `added` and `removed` also have the objects
// and lists that come or go as a whole.
Comparison CompareFields(const Schema* schema, const base::Json& before, const base::Json& after,
                         const FieldSet& ignored = {});

// Returns `set` with the named fields above its members: "spec" for "spec.nodeName". Keys of maps
// above a member are not added.
FieldSet WithNamedParents(const Schema* schema, const FieldSet& set);

// Converts `sets`, which are those of the managers of `object`, to the present schema. They may
// have been written with a schema in which other lists, maps or objects were atomic.
void FollowSchema(const Schema* schema, const base::Json& object, std::span<FieldSet* const> sets);

}  // namespace berth::api
