#include "api/merging/typed_value.h"

#include "api/merging/field_set.h"

namespace berth::api {

using base::Json;

namespace {

// The value of the item's key, or else the default of the key's field; nullptr if there is neither.
const Json* FindKeyValue(const Schema& list, const Json& item, const std::string& key) {
  if (const auto it = item.find(key); it != item.end()) return &*it;
  if (list.element == nullptr) return nullptr;
  const Field* field = list.element->Find(key);
  return field == nullptr || field->default_value.is_null() ? nullptr : &field->default_value;
}

}  // namespace

ValueShape ShapeOf(const Schema* schema, const Json& value) {
  if (value.is_object()) {
    if (schema == nullptr || schema->type == FieldType::kAny || schema->type == FieldType::kUnion) {
      return ValueShape::kMembers;
    }
    const bool members = schema->type == FieldType::kObject || schema->type == FieldType::kMap;
    return members && !schema->atomic ? ValueShape::kMembers : ValueShape::kLeaf;
  }
  if (value.is_array() && schema != nullptr && schema->type == FieldType::kList) {
    return schema->list_type == ListType::kAtomic ? ValueShape::kLeaf : ValueShape::kItems;
  }
  return ValueShape::kLeaf;
}

MemberType MemberTypeOf(const Schema* parent, std::string_view name) {
  if (parent == nullptr) return {};
  if (parent->type == FieldType::kMap) return {.schema = parent->element};
  if (parent->type != FieldType::kObject) return {};
  const Field* field = parent->Find(name);
  return field == nullptr ? MemberType{} : MemberType{.schema = field->type, .named = true};
}

std::string ItemElement(const Schema& list, const Json& item) {
  if (list.list_type != ListType::kMap || !item.is_object()) return ValueElement(item);
  Json keys = Json::object();
  for (const std::string& key : list.list_keys) {
    if (const Json* value = FindKeyValue(list, item, key)) keys[key] = *value;
  }
  return KeyElement(keys);
}

std::string FindMissingKey(const Schema& list, const Json& item) {
  if (list.list_type != ListType::kMap) return "";
  for (const std::string& key : list.list_keys) {
    if (!item.is_object() || FindKeyValue(list, item, key) == nullptr) return key;
  }
  return "";
}

}  // namespace berth::api
