// The schema of a custom resource's version, from its CustomResourceDefinition (OpenAPI v3,
// "structural"). It is read once and then used for every object.
//
//   schema_check     checks that Kubernetes accepts the schema
//   object_shape     prunes unknown members, fills in defaults
//   object_check     checks types and values
//   object_rules     runs x-kubernetes-validations, in CEL
//   schema_tree      converts the schema to an api::Schema, for apply, OpenAPI, strict decoding
//
// Immutable and thread-safe after ReadSchema, MakeSchemaTree and CompileRules have run. Pure.
#pragma once

#include <re2/re2.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/cel/program.h"
#include "api/schema/schema.h"
#include "base/json.h"

namespace berth::apiserver {

using base::Json;

struct StructuralSchema;
using StructuralPtr = std::unique_ptr<StructuralSchema>;

// One of x-kubernetes-validations.
struct ValidationRule {
  std::string rule;
  std::string message;
  std::string message_expression;
  std::string reason;      // "FieldValueInvalid" if empty
  std::string field_path;  // ".spec.x", relative to the value that the rule is for
  bool optional_old_self = false;
  // Set by CompileRules.
  std::optional<api::cel::Program> program;
  std::optional<api::cel::Program> message_program;
};

// Also used for the schemas below allOf, anyOf, oneOf and not; there only the constraints are set.
struct StructuralSchema {
  std::string type;  // "object", "array", "string", "integer", "number", "boolean" or ""
  std::string format;
  std::string description;
  bool nullable = false;
  bool preserve_unknown = false;
  bool int_or_string = false;
  bool embedded = false;  // an object with apiVersion, kind and metadata
  api::ListType list_type = api::ListType::kAtomic;
  std::vector<std::string> list_keys;
  bool atomic = false;  // x-kubernetes-map-type

  std::map<std::string, StructuralPtr, std::less<>> properties;
  StructuralPtr items;
  StructuralPtr additional;     // the schema of members that properties does not list
  bool any_additional = false;  // additionalProperties: true
  std::optional<Json> default_value;

  std::optional<double> maximum;
  std::optional<double> minimum;
  bool exclusive_maximum = false;
  bool exclusive_minimum = false;
  std::optional<double> multiple_of;
  std::optional<int64_t> max_length, min_length;
  std::optional<int64_t> max_items, min_items;
  std::optional<int64_t> max_properties, min_properties;
  std::string pattern;
  std::shared_ptr<const RE2> regex;  // of `pattern`
  std::vector<Json> enum_values;
  std::vector<std::string> required;
  std::vector<StructuralPtr> all_of, any_of, one_of;
  StructuralPtr not_one;
  std::vector<ValidationRule> rules;

  // The tree's node for this schema, also for nodes that have only constraints.
  const api::Schema* tree = nullptr;  // set by MakeSchemaTree
  bool has_defaults = false;          // in this schema or below it
  bool has_rules = false;             // in this schema or below it

  const StructuralSchema* FindProperty(std::string_view name) const {
    const auto it = properties.find(name);
    return it != properties.end() ? it->second.get() : nullptr;
  }
  // The schema of the member `name`, a property or an additional one; null if it has none.
  const StructuralSchema* FindMember(std::string_view name) const {
    const StructuralSchema* property = FindProperty(name);
    return property != nullptr ? property : additional.get();
  }
};

// Reads the schema's JSON. Members of the wrong type count as absent, and patterns that do not
// compile are left out. CheckSchema decides whether the schema is acceptable.
StructuralPtr ReadSchema(const Json& json);

}  // namespace berth::apiserver
