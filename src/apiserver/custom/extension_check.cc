#include "apiserver/custom/extension_check.h"

#include <optional>
#include <set>

namespace berth::apiserver {

using base::Json;
using base::json::Array;
using base::json::Bool;
using base::json::Find;
using base::json::Map;
using base::json::String;

bool HasMember(const Json& schema, std::string_view name) {
  return Find(schema, {name}) != nullptr;
}

namespace {

void CheckTypes(const Json& schema, const std::string& field, FieldErrors& errors) {
  const std::string type = String(schema, {"type"});
  const Json* preserve = Find(schema, {"x-kubernetes-preserve-unknown-fields"});
  if (preserve != nullptr && *preserve == false) {
    errors.Invalid(field + ".x-kubernetes-preserve-unknown-fields", false,
                   "must be true or undefined");
  }
  const Json* map_type = Find(schema, {"x-kubernetes-map-type"});
  if (map_type == nullptr) return;
  if (type != "object") {
    constexpr std::string_view kWhy = "must be object if x-kubernetes-map-type is specified";
    type.empty() ? errors.Required(field + ".type", kWhy)
                 : errors.Invalid(field + ".type", type, kWhy);
  }
  if (*map_type != "atomic" && *map_type != "granular") {
    errors.NotSupported(field + ".x-kubernetes-map-type", *map_type, {"atomic", "granular"});
  }
}

void CheckSet(const Json& items, const std::string& field, FieldErrors& errors) {
  const std::string type = String(items, {"type"});
  constexpr std::string_view kWhy =
      "must be atomic as item of a list with x-kubernetes-list-type=set";
  const Json* list_type = Find(items, {"x-kubernetes-list-type"});
  if (type == "array" && list_type != nullptr && *list_type != "atomic") {
    errors.Invalid(field + ".items.x-kubernetes-list-type", *list_type, kWhy);
  }
  if (type == "object" && String(items, {"x-kubernetes-map-type"}) != "atomic") {
    errors.Invalid(field + ".items.x-kubernetes-map-type", String(items, {"x-kubernetes-map-type"}),
                   kWhy);
  }
}

void CheckMapKey(const Json& items, const Json& property, const std::string& name,
                 const std::string& field, FieldErrors& errors) {
  const std::string type = String(property, {"type"});
  if (type == "array" || type == "object") {
    errors.Invalid(field + ".type", type,
                   "must be a scalar type if parent array's x-kubernetes-list-type is map");
  }
  const Json& required = Array(items, {"required"});
  const bool is_required = std::find(required.begin(), required.end(), name) != required.end();
  if (!is_required && !HasMember(property, "default")) {
    errors.Required(field + ".default",
                    "this property is in x-kubernetes-list-map-keys, so it must have a default "
                    "or be a required property");
  }
  if (Bool(property, {"nullable"})) {
    errors.Forbidden(field + ".nullable",
                     "this property is in x-kubernetes-list-map-keys, so it cannot be nullable");
  }
}

void CheckMapList(const Json& items, const Json& keys, const std::string& field,
                  FieldErrors& errors) {
  const std::string at_keys = field + ".x-kubernetes-list-map-keys";
  if (keys.empty()) {
    errors.Required(at_keys, "must not be empty if x-kubernetes-list-type is map");
  }
  if (items.empty()) {
    return errors.Required(field + ".items", "must have a schema if x-kubernetes-list-type is map");
  }
  if (String(items, {"type"}) != "object") {
    return errors.Invalid(field + ".items.type", String(items, {"type"}),
                          "must be object if parent array's x-kubernetes-list-type is map");
  }
  std::set<std::string> seen;
  for (const Json& key : keys) {
    if (!key.is_string()) continue;
    const auto name = key.get<std::string>();
    if (!seen.insert(name).second) {
      errors.Invalid(at_keys, keys, "must not contain duplicate entries");
    }
    const Json* property = Find(items, {"properties", name});
    if (property == nullptr) {
      errors.Invalid(at_keys, keys, "entries must all be names of item properties");
    } else {
      CheckMapKey(items, *property, name, fmt::format("{}.items.properties[{}]", field, name),
                  errors);
    }
  }
}

void CheckListType(const Json& schema, const std::string& field, FieldErrors& errors) {
  const std::string type = String(schema, {"type"});
  const std::string at = field + ".x-kubernetes-list-type";
  const Json& keys = Array(schema, {"x-kubernetes-list-map-keys"});
  const Json* list_type = Find(schema, {"x-kubernetes-list-type"});
  if (list_type == nullptr) {
    if (!keys.empty()) {
      errors.Required(at, "must be map if x-kubernetes-list-map-keys is non-empty");
    }
    return;
  }
  if (type != "array") {
    constexpr std::string_view kWhy = "must be array if x-kubernetes-list-type is specified";
    type.empty() ? errors.Required(field + ".type", kWhy)
                 : errors.Invalid(field + ".type", type, kWhy);
  }
  if (*list_type != "atomic" && *list_type != "set" && *list_type != "map") {
    return errors.NotSupported(at, *list_type, {"atomic", "set", "map"});
  }
  if (!keys.empty() && *list_type != "map") {
    errors.Invalid(at, *list_type, "must be map if x-kubernetes-list-map-keys is non-empty");
  }
  const Json& items = Map(schema, {"items"});
  if (*list_type != "atomic" && Bool(items, {"nullable"})) {
    errors.Forbidden(field + ".items.nullable",
                     fmt::format("cannot be nullable when x-kubernetes-list-type is {}",
                                 list_type->get<std::string>()));
  }
  if (*list_type == "set") CheckSet(items, field, errors);
  if (*list_type == "map") CheckMapList(items, keys, field, errors);
}

void CheckReason(const Json& rule, const std::string& field, FieldErrors& errors) {
  const Json* reason = Find(rule, {"reason"});
  if (reason == nullptr || !reason->is_string()) return;
  static const std::vector<std::string> kReasons = {"FieldValueDuplicate", "FieldValueForbidden",
                                                    "FieldValueInvalid", "FieldValueRequired"};
  if (std::find(kReasons.begin(), kReasons.end(), reason->get<std::string>()) == kReasons.end()) {
    errors.NotSupported(field + ".reason", *reason, kReasons);
  }
}

// Removes the first name from a path such as ".a['b'].c" and returns it; nullopt if the path does
// not begin with a name.
std::optional<std::string_view> TakeName(std::string_view& path) {
  const bool quoted = path.starts_with("['");
  if (!quoted && !path.starts_with('.')) return std::nullopt;
  const size_t start = quoted ? 2 : 1;
  const size_t end = quoted ? path.find("']") : std::min(path.find_first_of(".[", 1), path.size());
  if (end == std::string_view::npos || end <= start) return std::nullopt;
  const std::string_view name = path.substr(start, end - start);
  path.remove_prefix(quoted ? end + 2 : end);
  return name;
}

// Whether `path` leads only through declared properties and additional properties.
bool IsFieldPath(const Json& schema, std::string_view path) {
  const Json* at = &schema;
  while (!path.empty()) {
    const auto name = TakeName(path);
    if (!name) return false;
    const Json* property = Find(*at, {"properties", *name});
    if (property == nullptr) property = Find(*at, {"additionalProperties"});
    if (property == nullptr || !property->is_object()) return false;
    at = property;
  }
  return true;
}

void CheckRuleTexts(const Json& schema, const std::string& field, FieldErrors& errors) {
  size_t i = 0;
  for (const Json& rule : Array(schema, {"x-kubernetes-validations"})) {
    const std::string at = fmt::format("{}.x-kubernetes-validations[{}]", field, i++);
    const std::string text = String(rule, {"rule"});
    const std::string message = String(rule, {"message"});
    const auto blank = [](std::string_view s) {
      return s.find_first_not_of(" \t\r\n") == std::string_view::npos;
    };
    const auto lines = [](std::string_view s) {
      while (!s.empty() && (s.back() == '\n' || s.back() == '\r')) s.remove_suffix(1);
      return s.find_first_of("\r\n") != std::string_view::npos;
    };
    if (blank(text)) {
      errors.Required(at + ".rule", "rule is not specified");
    } else if (!message.empty() && blank(message)) {
      errors.Invalid(at + ".message", message, "message must be non-empty if specified");
    } else if (lines(message)) {
      errors.Invalid(at + ".message", message, "message must not contain line breaks");
    } else if (lines(text) && blank(message)) {
      errors.Required(at + ".message", "message must be specified if rule contains line breaks");
    }
    const Json* expression = Find(rule, {"messageExpression"});
    if (expression != nullptr && *expression != "" && blank(String(rule, {"messageExpression"}))) {
      errors.Required(at + ".messageExpression",
                      "messageExpression must be non-empty if specified");
    }
    CheckReason(rule, at, errors);
    const std::string path = String(rule, {"fieldPath"});
    if (!IsFieldPath(schema, path)) {
      errors.Invalid(at + ".fieldPath", path, "fieldPath must be a valid path");
    }
  }
}

}  // namespace

void CheckExtensions(const Json& schema, const std::string& field, FieldErrors& errors) {
  CheckTypes(schema, field, errors);
  CheckListType(schema, field, errors);
  CheckRuleTexts(schema, field, errors);
}

}  // namespace berth::apiserver
