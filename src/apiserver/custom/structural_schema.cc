#include "apiserver/custom/structural_schema.h"

#include "api/cel/functions.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::Bool;
using base::json::Find;
using base::json::Map;
using base::json::String;

namespace {

std::optional<double> ReadNumber(const Json& json, std::string_view name) {
  const Json* value = Find(json, {name});
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

std::optional<int64_t> ReadCount(const Json& json, std::string_view name) {
  const Json* value = Find(json, {name});
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  return value->get<int64_t>();
}

std::vector<std::string> ReadTexts(const Json& json, std::string_view name) {
  std::vector<std::string> out;
  for (const Json& item : Array(json, {name})) {
    if (item.is_string()) out.push_back(item.get<std::string>());
  }
  return out;
}

void ReadExtensions(const Json& json, StructuralSchema& schema) {
  schema.preserve_unknown = Bool(json, {"x-kubernetes-preserve-unknown-fields"});
  schema.int_or_string = Bool(json, {"x-kubernetes-int-or-string"});
  schema.embedded = Bool(json, {"x-kubernetes-embedded-resource"});
  schema.atomic = String(json, {"x-kubernetes-map-type"}) == "atomic";
  const std::string list_type = String(json, {"x-kubernetes-list-type"});
  schema.list_type = list_type == "map"   ? api::ListType::kMap
                     : list_type == "set" ? api::ListType::kSet
                                          : api::ListType::kAtomic;
  schema.list_keys = ReadTexts(json, "x-kubernetes-list-map-keys");
  for (const Json& rule : Array(json, {"x-kubernetes-validations"})) {
    schema.rules.push_back({.rule = String(rule, {"rule"}),
                            .message = String(rule, {"message"}),
                            .message_expression = String(rule, {"messageExpression"}),
                            .reason = String(rule, {"reason"}),
                            .field_path = String(rule, {"fieldPath"}),
                            .optional_old_self = Bool(rule, {"optionalOldSelf"}),
                            .program = std::nullopt,
                            .message_program = std::nullopt});
  }
}

void ReadConstraints(const Json& json, StructuralSchema& schema) {
  schema.maximum = ReadNumber(json, "maximum");
  schema.minimum = ReadNumber(json, "minimum");
  schema.exclusive_maximum = Bool(json, {"exclusiveMaximum"});
  schema.exclusive_minimum = Bool(json, {"exclusiveMinimum"});
  schema.multiple_of = ReadNumber(json, "multipleOf");
  schema.max_length = ReadCount(json, "maxLength");
  schema.min_length = ReadCount(json, "minLength");
  schema.max_items = ReadCount(json, "maxItems");
  schema.min_items = ReadCount(json, "minItems");
  schema.max_properties = ReadCount(json, "maxProperties");
  schema.min_properties = ReadCount(json, "minProperties");
  schema.pattern = String(json, {"pattern"});
  if (!schema.pattern.empty()) {
    auto regex = api::cel::CompilePattern(schema.pattern);
    if (regex.ok()) schema.regex = *std::move(regex);
  }
  const Json& values = Array(json, {"enum"});
  schema.enum_values.assign(values.begin(), values.end());
  schema.required = ReadTexts(json, "required");
}

void ReadList(const Json& json, std::string_view name, std::vector<StructuralPtr>& out) {
  for (const Json& item : Array(json, {name})) out.push_back(ReadSchema(item));
}

void SetSummaries(StructuralSchema& schema) {
  schema.has_defaults = schema.default_value.has_value();
  schema.has_rules = !schema.rules.empty();
  const auto add = [&](const StructuralPtr& child) {
    if (child == nullptr) return;
    schema.has_defaults |= child->has_defaults;
    schema.has_rules |= child->has_rules;
  };
  for (const auto& [name, property] : schema.properties) add(property);
  add(schema.items);
  add(schema.additional);
}

}  // namespace

StructuralPtr ReadSchema(const Json& json) {
  auto schema = std::make_unique<StructuralSchema>();
  schema->type = String(json, {"type"});
  schema->format = String(json, {"format"});
  schema->description = String(json, {"description"});
  schema->nullable = Bool(json, {"nullable"});
  if (const Json* value = Find(json, {"default"})) schema->default_value = *value;
  ReadExtensions(json, *schema);
  ReadConstraints(json, *schema);
  for (const auto& [name, property] : Map(json, {"properties"}).items()) {
    schema->properties.emplace(name, ReadSchema(property));
  }
  if (const Json* items = Find(json, {"items"}); items != nullptr && items->is_object()) {
    schema->items = ReadSchema(*items);
  }
  if (const Json* additional = Find(json, {"additionalProperties"})) {
    if (additional->is_object()) schema->additional = ReadSchema(*additional);
    schema->any_additional = additional->is_boolean() && additional->get<bool>();
  }
  ReadList(json, "allOf", schema->all_of);
  ReadList(json, "anyOf", schema->any_of);
  ReadList(json, "oneOf", schema->one_of);
  if (const Json* not_one = Find(json, {"not"})) schema->not_one = ReadSchema(*not_one);
  SetSummaries(*schema);
  return schema;
}

}  // namespace berth::apiserver
