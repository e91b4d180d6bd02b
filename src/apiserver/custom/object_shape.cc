#include "apiserver/custom/object_shape.h"

namespace berth::apiserver {

namespace {

bool IsIdentity(std::string_view name) {
  return name == "apiVersion" || name == "kind" || name == "metadata";
}

// Which of the members that the schema does not list are kept.
enum class Keep { kNothing, kIdentity, kMembers };

Keep MembersKeptBy(const StructuralSchema* schema) {
  return schema != nullptr && schema->embedded ? Keep::kIdentity : Keep::kNothing;
}

void PruneValue(const StructuralSchema* schema, Json& value, Keep keep);

void PruneObject(const StructuralSchema& schema, Json& object, Keep keep) {
  for (auto it = object.begin(); it != object.end();) {
    const StructuralSchema* property = schema.FindProperty(it.key());
    if (keep == Keep::kIdentity && IsIdentity(it.key())) {
      ++it;
    } else if (property != nullptr) {
      PruneValue(property, *it++, MembersKeptBy(property));
    } else if (schema.additional != nullptr || schema.any_additional) {
      PruneValue(schema.additional.get(), *it++, MembersKeptBy(schema.additional.get()));
    } else if (schema.preserve_unknown || keep == Keep::kMembers) {
      ++it;  // the member is kept with all its content
    } else {
      it = object.erase(it);
    }
  }
}

// Without a schema, objects lose all members, because no member is known.
void PruneValue(const StructuralSchema* schema, Json& value, Keep keep) {
  if (value.is_object()) {
    if (schema != nullptr) return PruneObject(*schema, value, keep);
    value.clear();
  } else if (value.is_array()) {
    const bool kept = keep == Keep::kMembers || (schema != nullptr && schema->preserve_unknown);
    const StructuralSchema* items = schema != nullptr ? schema->items.get() : nullptr;
    if (items == nullptr && kept) return;
    for (Json& item : value) PruneValue(items, item, kept ? Keep::kMembers : MembersKeptBy(items));
  }
}

// The default that replaces `value`; null if the value stays.
const Json* FindDefault(const StructuralSchema& schema, const Json& value) {
  return value.is_null() && !schema.nullable && schema.default_value ? &*schema.default_value
                                                                     : nullptr;
}

}  // namespace

void PruneUnknown(const StructuralSchema& schema, Json& value, bool whole) {
  PruneValue(&schema, value, whole ? Keep::kIdentity : MembersKeptBy(&schema));
}

void DropNulls(const StructuralSchema& schema, Json& value) {
  if (value.is_object()) {
    for (auto it = value.begin(); it != value.end();) {
      const StructuralSchema* member = schema.FindMember(it.key());
      if (member != nullptr && it->is_null() && !member->nullable && !member->default_value) {
        it = value.erase(it);
      } else {
        if (member != nullptr) DropNulls(*member, *it);
        ++it;
      }
    }
  } else if (value.is_array() && schema.items != nullptr) {
    for (Json& item : value) DropNulls(*schema.items, item);
  }
}

void ApplyDefaults(const StructuralSchema& schema, Json& value) {
  if (!schema.has_defaults) return;
  if (value.is_object()) {
    for (const auto& [name, property] : schema.properties) {
      if (!property->default_value) continue;
      const auto it = value.find(name);
      if (it == value.end() || FindDefault(*property, *it) != nullptr) {
        value[name] = *property->default_value;
      }
    }
    for (auto& [name, member] : value.items()) {
      const StructuralSchema* known = schema.FindMember(name);
      if (known == nullptr) continue;
      if (const Json* fallback = FindDefault(*known, member)) member = *fallback;
      ApplyDefaults(*known, member);
    }
  } else if (value.is_array() && schema.items != nullptr) {
    for (Json& item : value) {
      if (const Json* fallback = FindDefault(*schema.items, item)) item = *fallback;
      ApplyDefaults(*schema.items, item);
    }
  }
}

}  // namespace berth::apiserver
