// How server-side apply treats a value: as a whole, or by its members or items.
//
// A null schema stands for an unknown type (a custom resource without schema, or members that a
// schema does not list). Then objects are treated by their members, and lists as a whole. Pure.
#pragma once

#include <string>
#include <string_view>

#include "api/schema/schema.h"
#include "base/json.h"

namespace berth::api {

enum class ValueShape {
  kLeaf,     // a plain value, or a list, map or object that is replaced as a whole
  kMembers,  // an object or map, by member
  kItems,    // a set or map list, by item
};

ValueShape ShapeOf(const Schema* schema, const base::Json& value);

struct MemberType {
  const Schema* schema = nullptr;
  bool named = false;  // a field of an object's type, not a key of a map
};
// The type of the member `name` of a value of the type `parent`.
MemberType MemberTypeOf(const Schema* parent, std::string_view name);

// The path element of an item of a set or map list. A key that the item lacks counts as its
// default; a key without default is left out of the element.
std::string ItemElement(const Schema& list, const base::Json& item);

// Finds a key that `item` lacks and that has no default; empty if there is none.
std::string FindMissingKey(const Schema& list, const base::Json& item);

}  // namespace berth::api
