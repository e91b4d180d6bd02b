#include "apiserver/custom/schema_check.h"

#include <set>

#include "api/cel/functions.h"
#include "apiserver/custom/extension_check.h"
#include "apiserver/custom/object_check.h"
#include "apiserver/custom/object_shape.h"
#include "apiserver/custom/structural_schema.h"

namespace berth::apiserver {

using base::Json;
using base::json::Array;
using base::json::Bool;
using base::json::Find;
using base::json::Map;
using base::json::String;

namespace {

// The most that all compiled patterns of one schema may take together (RE2::ProgramSize). They are
// bounded because they stay in memory as long as the definition.
constexpr int64_t kMaxPatternProgram = 500'000;

enum class Level { kRoot, kItem, kField };

// The position of a schema.
struct Place {
  std::string field;
  Level level = Level::kField;
  // Below allOf, anyOf, oneOf or not: the schema may only constrain members that are declared
  // outside.
  bool nested = false;
  // Whether this is within the schema of an object's apiVersion, kind or metadata.
  bool in_identity = false;
  // The reason why a default is forbidden; empty: a default is allowed.
  std::string no_default;
  // Whether this is a member of an int-or-string pattern's anyOf, which may have a type.
  bool may_have_type = false;

  Place Below(std::string_view part, Level next) const {
    Place place = *this;
    place.field = fmt::format("{}.{}", field, part);
    place.level = next;
    place.may_have_type = false;
    return place;
  }
  Place InCombination(std::string part) const {
    Place place = *this;
    place.field = fmt::format("{}.{}", field, part);
    place.nested = true;
    place.may_have_type = false;
    return place;
  }
};

// Whether `any_of` is [{type: integer}, {type: string}], which int-or-string fields may have.
bool IsIntOrStringPattern(const Json& any_of) {
  static const Json pattern = {{{"type", "integer"}}, {{"type", "string"}}};
  return any_of == pattern;
}

class SchemaChecker {
 public:
  explicit SchemaChecker(FieldErrors& errors) : errors_(errors) {}

  void CheckPlace(const Json& schema, const Place& place) {
    if (!schema.is_object()) {
      return errors_.Invalid(place.field, schema, "must be a schema object");
    }
    CheckUnsupported(schema, place);
    place.nested ? CheckNested(schema, place) : CheckStructural(schema, place);
    CheckExtensions(schema, place.field, errors_);
    CheckPattern(schema, place);
    CheckChildren(schema, place);
  }

 private:
  // ---- members that no schema may have

  void CheckUnsupported(const Json& schema, const Place& place) {
    const std::string type = String(schema, {"type"});
    const auto at = [&](std::string_view name) { return fmt::format("{}.{}", place.field, name); };
    if (type == "null") {
      errors_.Forbidden(at("type"), "type cannot be set to null, use nullable as an alternative");
    } else if (!type.empty()) {
      CheckTypeName(type, at("type"));
    }
    if (HasMember(schema, "default") && !place.nested && !place.no_default.empty()) {
      errors_.Forbidden(at("default"), "must not be set " + place.no_default);
    }
    for (const char* name :
         {"id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"}) {
      const Json* value = Find(schema, {name});
      if (value == nullptr || (value->is_structured() && value->empty())) continue;
      if (value->is_string() && value->get_ref<const std::string&>().empty()) continue;
      errors_.Forbidden(at(name), fmt::format("{} is not supported", name));
    }
    if (Array(schema, {"items"}).size() > 0) {
      errors_.Forbidden(at("items"), "items must be a schema object and not an array");
    }
    if (Bool(schema, {"uniqueItems"})) {
      errors_.Forbidden(
          at("uniqueItems"),
          "uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
    }
    const Json* additional = Find(schema, {"additionalProperties"});
    if (additional != nullptr && !Map(schema, {"properties"}).empty() && *additional != true) {
      errors_.Forbidden(at("additionalProperties"),
                        "additionalProperties and properties are mutual exclusive");
    }
    if (place.in_identity && Bool(schema, {"x-kubernetes-embedded-resource"})) {
      errors_.Forbidden(at("x-kubernetes-embedded-resource"),
                        "must not be used inside of resource meta");
    }
  }

  void CheckTypeName(const std::string& type, const std::string& field) {
    static const std::vector<std::string> kTypes = {"array",  "boolean", "integer",
                                                    "number", "object",  "string"};
    if (std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
      errors_.NotSupported(field, type, kTypes);
    }
  }

  // ---- the rules of structural schemas

  void CheckStructural(const Json& schema, const Place& place) {
    const std::string type = String(schema, {"type"});
    const bool preserve = Bool(schema, {"x-kubernetes-preserve-unknown-fields"});
    const bool int_or_string = Bool(schema, {"x-kubernetes-int-or-string"});
    const bool embedded = Bool(schema, {"x-kubernetes-embedded-resource"});
    const bool root = place.level == Level::kRoot;
    const std::string at_type = place.field + ".type";
    if (type == "array" && !HasMember(schema, "items")) {
      errors_.Required(place.field + ".items", "must be specified");
    }
    if (HasMember(schema, "additionalProperties")) {
      if (root) {
        errors_.Forbidden(place.field + ".additionalProperties", "must not be used at the root");
      } else if (embedded) {
        errors_.Forbidden(place.field + ".additionalProperties",
                          "must not be used if x-kubernetes-embedded-resource is set");
      }
    }
    if (embedded && type != "object") {
      constexpr std::string_view kWhy = "must be object if x-kubernetes-embedded-resource is true";
      type.empty() ? errors_.Required(at_type, kWhy) : errors_.Invalid(at_type, type, kWhy);
    } else if (type.empty() && !int_or_string && !preserve) {
      errors_.Required(at_type, root ? "must not be empty at the root"
                                : place.level == Level::kItem
                                    ? "must not be empty for specified array items"
                                    : "must not be empty for specified object fields");
    }
    if (root && !type.empty() && type != "object") {
      errors_.Invalid(at_type, type, "must be object at the root");
    }
    if (root && Bool(schema, {"nullable"})) {
      errors_.Forbidden(place.field + ".nullable", "nullable cannot be true at the root");
    }
    if (root || embedded) CheckIdentity(schema, place);
    if (embedded && !preserve && Map(schema, {"properties"}).empty()) {
      errors_.Required(place.field + ".properties",
                       "must not be empty if x-kubernetes-embedded-resource is true without "
                       "x-kubernetes-preserve-unknown-fields");
    }
    if (int_or_string && preserve) {
      errors_.Invalid(place.field + ".x-kubernetes-preserve-unknown-fields", true,
                      "must be false if x-kubernetes-int-or-string is true");
    }
    if (int_or_string && embedded) {
      errors_.Invalid(place.field + ".x-kubernetes-embedded-resource", true,
                      "must be false if x-kubernetes-int-or-string is true");
    }
    CheckCombinationsAreDeclared(schema, place);
  }

  void CheckIdentity(const Json& schema, const Place& place) {
    for (const char* name : {"kind", "apiVersion"}) {
      const Json* property = Find(schema, {"properties", name});
      if (property != nullptr && String(*property, {"type"}) != "string") {
        errors_.Invalid(fmt::format("{}.properties[{}].type", place.field, name),
                        String(*property, {"type"}), "must be string");
      }
    }
    const Json* metadata = Find(schema, {"properties", "metadata"});
    if (metadata == nullptr) return;
    const std::string field = place.field + ".properties[metadata]";
    if (String(*metadata, {"type"}) != "object") {
      errors_.Invalid(field + ".type", String(*metadata, {"type"}), "must be object");
    }
    if (place.level != Level::kRoot) return;
    static const std::set<std::string> kAllowed = {"type", "description", "properties"};
    bool more = false;
    for (const auto& [name, value] : metadata->items()) more |= !kAllowed.contains(name);
    for (const auto& [name, value] : Map(*metadata, {"properties"}).items()) {
      more |= name != "name" && name != "generateName";
    }
    if (more) {
      errors_.Forbidden(field,
                        "must not specify anything other than name and generateName, but metadata "
                        "is implicitly specified");
    }
  }

  // ---- below allOf, anyOf, oneOf and not

  void CheckNested(const Json& schema, const Place& place) {
    const auto forbid = [&](bool present, std::string_view name, std::string_view why) {
      if (present) {
        errors_.Forbidden(fmt::format("{}.{}", place.field, name),
                          fmt::format("must be {} to be structural", why));
      }
    };
    const auto text = [&](std::string_view name) { return !String(schema, {name}).empty(); };
    forbid(text("type") && !place.may_have_type, "type", "empty");
    forbid(HasMember(schema, "additionalProperties"), "additionalProperties", "undefined");
    forbid(HasMember(schema, "default"), "default", "undefined");
    forbid(text("title"), "title", "empty");
    forbid(text("description"), "description", "empty");
    forbid(Bool(schema, {"nullable"}), "nullable", "false");
    forbid(HasMember(schema, "externalDocs"), "externalDocs", "undefined");
    for (const char* name : {"x-kubernetes-preserve-unknown-fields",
                             "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"}) {
      forbid(Bool(schema, {name}), name, "false");
    }
    forbid(!Array(schema, {"x-kubernetes-list-map-keys"}).empty(), "x-kubernetes-list-map-keys",
           "empty");
    forbid(HasMember(schema, "x-kubernetes-list-type"), "x-kubernetes-list-type", "undefined");
    forbid(HasMember(schema, "x-kubernetes-map-type"), "x-kubernetes-map-type", "undefined");
    forbid(!Array(schema, {"x-kubernetes-validations"}).empty(), "x-kubernetes-validations",
           "empty");
    if (HasMember(Map(schema, {"properties"}), "metadata")) {
      errors_.Forbidden(place.field + ".properties[metadata]",
                        "must not be specified in a nested context");
    }
  }

  // The members that a combination constrains must be declared outside of it.
  void CheckCombinationsAreDeclared(const Json& schema, const Place& place) {
    ForEachCombination(schema, [&](const Json& part, const std::string& name) {
      CheckDeclared(part, fmt::format("{}.{}", place.field, name), schema, place.field);
    });
  }

  void CheckDeclared(const Json& nested, const std::string& nested_field, const Json& outer,
                     const std::string& outer_field) {
    for (const auto& [name, property] : Map(nested, {"properties"}).items()) {
      const std::string part = fmt::format(".properties[{}]", name);
      const Json* declared = Find(outer, {"properties", name});
      if (declared == nullptr) {
        errors_.Required(outer_field + part,
                         fmt::format("because it is defined in {}{}", nested_field, part));
      } else {
        CheckDeclared(property, nested_field + part, *declared, outer_field + part);
      }
    }
    if (const Json* items = Find(nested, {"items"}); items != nullptr && items->is_object()) {
      const Json* declared = Find(outer, {"items"});
      if (declared == nullptr) {
        errors_.Required(outer_field + ".items",
                         fmt::format("because it is defined in {}.items", nested_field));
      } else {
        CheckDeclared(*items, nested_field + ".items", *declared, outer_field + ".items");
      }
    }
    ForEachCombination(nested, [&](const Json& part, const std::string& name) {
      CheckDeclared(part, fmt::format("{}.{}", nested_field, name), outer, outer_field);
    });
  }

  template <typename Visit>
  static void ForEachCombination(const Json& schema, Visit visit) {
    for (const char* kind : {"allOf", "anyOf", "oneOf"}) {
      size_t i = 0;
      for (const Json& part : Array(schema, {kind})) visit(part, fmt::format("{}[{}]", kind, i++));
    }
    if (const Json* part = Find(schema, {"not"})) visit(*part, "not");
  }

  // ---- patterns

  void CheckPattern(const Json& schema, const Place& place) {
    const std::string pattern = String(schema, {"pattern"});
    if (pattern.empty()) return;
    const auto regex = api::cel::CompilePattern(pattern);
    if (!regex.ok()) {
      return errors_.Invalid(place.field + ".pattern", pattern,
                             fmt::format("must be a valid regular expression, but isn't: {}",
                                         base::Message(regex.status())));
    }
    pattern_program_ += (*regex)->ProgramSize();
    if (pattern_program_ > kMaxPatternProgram) {
      errors_.Invalid(place.field + ".pattern", pattern,
                      "the patterns of the schema are too large together");
    }
  }

  // ---- the schemas below

  void CheckChildren(const Json& schema, const Place& place) {
    const bool whole = !place.nested && (place.level == Level::kRoot ||
                                         Bool(schema, {"x-kubernetes-embedded-resource"}));
    for (const auto& [name, property] : Map(schema, {"properties"}).items()) {
      Place below = place.Below(fmt::format("properties[{}]", name), Level::kField);
      if (whole && (name == "metadata" || name == "kind" || name == "apiVersion")) {
        below.in_identity = true;
        if (place.level == Level::kRoot) below.no_default = fmt::format("in top-level {}", name);
      }
      CheckPlace(property, below);
    }
    if (const Json* items = Find(schema, {"items"}); items != nullptr && items->is_object()) {
      CheckPlace(*items, place.Below("items", Level::kItem));
    }
    const Json* additional = Find(schema, {"additionalProperties"});
    if (additional != nullptr && additional->is_object()) {
      Place below = place.Below("additionalProperties", Level::kField);
      if (place.in_identity) {
        below.no_default = "inside additionalProperties applying to object metadata";
      }
      CheckPlace(*additional, below);
    }
    CheckCombinations(schema, place);
  }

  void CheckCombinations(const Json& schema, const Place& place) {
    const bool may_pattern = !place.nested || place.may_have_type;
    const bool any_pattern = may_pattern && IsIntOrStringPattern(Array(schema, {"anyOf"}));
    ForEachCombination(schema, [&](const Json& part, const std::string& name) {
      Place below = place.InCombination(name);
      below.may_have_type = any_pattern && name.starts_with("anyOf");
      // In the pattern's other form, the anyOf is in the first allOf.
      const bool first_all =
          !place.nested && name == "allOf[0]" && IsIntOrStringPattern(Array(part, {"anyOf"}));
      if (!first_all) return CheckPlace(part, below);
      Json rest = part;
      rest.erase("anyOf");
      CheckPlace(rest, below);
    });
  }

  FieldErrors& errors_;
  int64_t pattern_program_ = 0;
};

// With a status subresource, the root may not have constraints that combine spec and status.
void CheckRootMembers(const Json& schema, const std::string& field, FieldErrors& errors) {
  static const std::set<std::string> kAllowed = {"description",
                                                 "type",
                                                 "format",
                                                 "title",
                                                 "maximum",
                                                 "exclusiveMaximum",
                                                 "minimum",
                                                 "exclusiveMinimum",
                                                 "maxLength",
                                                 "minLength",
                                                 "pattern",
                                                 "maxItems",
                                                 "minItems",
                                                 "uniqueItems",
                                                 "multipleOf",
                                                 "required",
                                                 "items",
                                                 "properties",
                                                 "externalDocs",
                                                 "example",
                                                 "x-kubernetes-preserve-unknown-fields",
                                                 "x-kubernetes-validations"};
  for (const auto& [name, value] : schema.items()) {
    if (kAllowed.contains(name)) continue;
    return errors.Invalid(
        field, schema,
        "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum "
        "MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items "
        "Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed "
        "at the root of the schema if the status subresource is enabled");
  }
}

void CheckDefault(const StructuralSchema& schema, const std::string& field, FieldErrors& errors) {
  const std::string at = field + ".default";
  Json filled = *schema.default_value;
  PruneUnknown(schema, filled, false);
  if (filled != *schema.default_value) {
    return errors.Invalid(at, *schema.default_value, "must not have unknown fields");
  }
  ApplyDefaults(schema, filled);
  CheckObject(schema, filled, nullptr, at, errors);
}

}  // namespace

void CheckSchema(const Json& schema, const std::string& field, bool has_status,
                 FieldErrors& errors) {
  if (has_status && schema.is_object()) CheckRootMembers(schema, field, errors);
  SchemaChecker(errors).CheckPlace(schema, {.field = field, .level = Level::kRoot});
}

void CheckDefaults(const StructuralSchema& schema, const std::string& field, FieldErrors& errors) {
  if (!schema.has_defaults) return;
  if (schema.default_value) CheckDefault(schema, field, errors);
  for (const auto& [name, property] : schema.properties) {
    CheckDefaults(*property, fmt::format("{}.properties[{}]", field, name), errors);
  }
  if (schema.items != nullptr) CheckDefaults(*schema.items, field + ".items", errors);
  if (schema.additional != nullptr) {
    CheckDefaults(*schema.additional, field + ".additionalProperties", errors);
  }
}

}  // namespace berth::apiserver
