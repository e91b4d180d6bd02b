// Finds the part of the old object that belongs to a part of the new one: members of objects by
// name, items of lists of the type map by their keys. Items of other lists cannot be matched.
#pragma once

#include <map>
#include <string>

#include "apiserver/custom/structural_schema.h"

namespace berth::apiserver {

// The keys of an item in a list of the type map, as an object; absent keys are left out.
Json KeyOfItem(const StructuralSchema& list, const Json& item);

// Finds the member `name` of `old`, which may be null; null if there is none, or if the map is
// atomic.
const Json* FindOldMember(const StructuralSchema& object, const Json* old, const std::string& name);

// Finds old items; borrows the schema and the old list.
class OldItems {
 public:
  OldItems(const StructuralSchema& list, const Json* old);
  // Null if the item is new.
  const Json* Find(const Json& item) const;

 private:
  const StructuralSchema& list_;
  std::map<std::string, const Json*> by_key_;
};

}  // namespace berth::apiserver
