#include "apiserver/custom/correlate.h"

namespace berth::apiserver {

Json KeyOfItem(const StructuralSchema& list, const Json& item) {
  Json key = Json::object();
  for (const std::string& name : list.list_keys) {
    const auto it = item.find(name);
    if (it != item.end()) key[name] = *it;
  }
  return key;
}

const Json* FindOldMember(const StructuralSchema& object, const Json* old,
                          const std::string& name) {
  if (old == nullptr || !old->is_object() || object.atomic) return nullptr;
  const auto it = old->find(name);
  return it != old->end() ? &*it : nullptr;
}

OldItems::OldItems(const StructuralSchema& list, const Json* old) : list_(list) {
  if (old == nullptr || !old->is_array() || list.list_type != api::ListType::kMap) return;
  for (const Json& item : *old) {
    if (item.is_object()) by_key_.emplace(base::json::Dump(KeyOfItem(list, item)), &item);
  }
}

const Json* OldItems::Find(const Json& item) const {
  if (by_key_.empty() || !item.is_object()) return nullptr;
  const auto it = by_key_.find(base::json::Dump(KeyOfItem(list_, item)));
  return it != by_key_.end() ? it->second : nullptr;
}

}  // namespace berth::apiserver
