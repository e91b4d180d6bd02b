// How server-side apply treats a value of a schema: as one piece, or member by member.
//
// A null schema stands for an unknown type (a custom resource without schema, or members that a
// schema does not list). Then the JSON value decides: objects are granular, lists atomic. Pure.
#pragma once

#include <string>
#include <string_view>

#include "api/schema/schema.h"
#include "base/json.h"

namespace berth::api {

enum class ValueShape {
  kLeaf,     // a plain value, or a list, map or object that is replaced whole
  kMembers,  // an object or map, by member
  kItems,    // a set or map list, by item
};

ValueShape ShapeOf(const Schema* schema, const base::Json& value);

// An empty object, map or list, or null.
inline bool IsVoid(const base::Json& value) { return value.empty(); }

struct MemberType {
  const Schema* schema = nullptr;
  bool named = false;  // a field of an object's type, not a key of a map
};
MemberType MemberTypeOf(const Schema* parent, std::string_view name);

// The path element of an item of a set or map list. A key that the item lacks counts as its
// default; a key without default is left out of the element.
std::string ItemElement(const Schema& list, const base::Json& item);

// The key that `item` lacks and that has no default; empty if there is none.
std::string MissingKey(const Schema& list, const base::Json& item);

}  // namespace berth::api
