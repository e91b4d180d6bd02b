// For tests: schemas written as JSON.
//
//   "s" "i" "b" "any"        string, integer, boolean, anything
//   {"a": T, "b!": T}        an object; "!" marks a required field
//   {"$map": T}  {"$list": T}  {"$set": T}
//   {"$keys": ["name"], "$items": T}   a map list
//   {"$atomic": T}           T, replaced whole
//   {"$default": value, "$type": T}    as a field: with a default
#pragma once

#include "api/schema/schema.h"
#include "base/json.h"

namespace berth::api {

inline const Schema* TestSchema(SchemaArena& arena, const base::Json& text) {
  Schema* out = arena.New();
  if (text.is_string()) {
    out->type = text == "s"   ? FieldType::kString
                : text == "i" ? FieldType::kInteger
                : text == "b" ? FieldType::kBoolean
                              : FieldType::kAny;
  } else if (text.contains("$atomic")) {
    *out = *TestSchema(arena, text["$atomic"]);
    out->atomic = true;
  } else if (text.contains("$map")) {
    out->type = FieldType::kMap;
    out->element = TestSchema(arena, text["$map"]);
  } else if (text.contains("$list") || text.contains("$set") || text.contains("$items")) {
    out->type = FieldType::kList;
    const char* items = text.contains("$list")  ? "$list"
                        : text.contains("$set") ? "$set"
                                                : "$items";
    out->element = TestSchema(arena, text[items]);
    if (text.contains("$set")) out->list_type = ListType::kSet;
    if (text.contains("$items")) {
      out->list_type = ListType::kMap;
      out->list_keys = text["$keys"].get<std::vector<std::string>>();
    }
  } else {
    out->type = FieldType::kObject;
    for (const auto& [name, type] : text.items()) {
      Field field;
      field.required = name.back() == '!';
      field.name = field.required ? name.substr(0, name.size() - 1) : name;
      const bool has_default = type.is_object() && type.contains("$default");
      if (has_default) field.default_value = type["$default"];
      field.type = TestSchema(arena, has_default ? type["$type"] : type);
      out->fields.push_back(std::move(field));
    }
  }
  return out;
}

}  // namespace berth::api
