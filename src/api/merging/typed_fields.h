// Which fields an object has, and which of them two objects differ in, by Schema (null: a type that
// is not known, see typed_value.h). The fields are leaves, the items of set and map lists, the keys
// of maps, and what is empty. Pure.
#pragma once

#include <span>

#include "api/merging/field_set.h"
#include "api/schema/schema.h"
#include "base/json.h"

namespace berth::api {

// The fields that `object` states, without those in `ignored` and what is below them. A field of
// `ignored` that has children there is only left out itself.
FieldSet FieldsOf(const Schema* schema, const base::Json& object, const FieldSet& ignored = {});

struct Comparison {
  FieldSet added;
  FieldSet modified;
  FieldSet removed;

  bool same() const { return added.empty() && modified.empty() && removed.empty(); }
};

// What `after` has and `before` hasn't, and so on. In `added` and `removed` are also the objects
// and lists around fields that come or go with them.
Comparison CompareFields(const Schema* schema, const base::Json& before, const base::Json& after,
                         const FieldSet& ignored = {});

// `set` with the named fields around its members: the field "spec" of "spec.nodeName", but not the
// key of a map around a field of its value.
FieldSet WithNamedParents(const Schema* schema, const FieldSet& set);

// Makes `sets`, the managers' of `object`, what they are by the present schema, when the one by
// which they were written had other lists, maps or objects atomic.
void FollowSchema(const Schema* schema, const base::Json& object, std::span<FieldSet* const> sets);

}  // namespace berth::api
