#include "apiserver/documents/openapi_schema.h"

namespace berth::apiserver {

using api::FieldType;
using api::ListType;
using api::Schema;

namespace {

// Sets {"oneOf": [...]} for a value that has two forms. Version 2 can express only one form.
void SetOneOf(Json& out, OpenApi version, std::string_view fallback,
              std::initializer_list<const char*> types) {
  if (version == OpenApi::kV2) {
    out["type"] = std::string(fallback);
    return;
  }
  Json choices = Json::array();
  for (const char* type : types) choices.push_back({{"type", type}});
  out["oneOf"] = std::move(choices);
}

Json RenderUse(const Schema& schema, OpenApi version);

void AddProperties(const Schema& schema, OpenApi version, Json& properties, Json& required) {
  for (const api::Field& field : schema.fields) {
    if (field.inlined) {
      AddProperties(*field.type, version, properties, required);
      continue;
    }
    Json property = RenderUse(*field.type, version);
    const bool refers = property.contains("$ref");
    if (!field.description.empty()) property["description"] = field.description;
    if (!field.default_value.is_null()) property["default"] = field.default_value;
    if (refers && property.size() > 1 && version == OpenApi::kV3) {
      // "$ref" is wrapped in allOf, because other members beside "$ref" are ignored.
      property["allOf"] = Json::array({{{"$ref", property["$ref"]}}});
      property.erase("$ref");
    }
    properties[field.name] = std::move(property);
    if (field.required) required.push_back(field.name);
  }
}

void DescribeObject(const Schema& schema, OpenApi version, Json& out) {
  out["type"] = "object";
  Json properties = Json::object();
  Json required = Json::array();
  AddProperties(schema, version, properties, required);
  if (!properties.empty()) out["properties"] = std::move(properties);
  if (!required.empty()) out["required"] = std::move(required);
  if (schema.preserve_unknown) out["x-kubernetes-preserve-unknown-fields"] = true;
}

void DescribeList(const Schema& schema, OpenApi version, Json& out) {
  out["type"] = "array";
  if (schema.element != nullptr) out["items"] = RenderUse(*schema.element, version);
  switch (schema.list_type) {
    case ListType::kAtomic:
      out["x-kubernetes-list-type"] = "atomic";
      break;
    case ListType::kSet:
      out["x-kubernetes-list-type"] = "set";
      break;
    case ListType::kMap:
      out["x-kubernetes-list-type"] = "map";
      out["x-kubernetes-list-map-keys"] = schema.list_keys;
      break;
  }
  if (schema.patch_merge) {
    out["x-kubernetes-patch-strategy"] = schema.patch_retain_keys ? "merge,retainKeys" : "merge";
  } else if (schema.patch_retain_keys) {
    out["x-kubernetes-patch-strategy"] = "retainKeys";
  }
  if (!schema.patch_merge_key.empty()) {
    out["x-kubernetes-patch-merge-key"] = schema.patch_merge_key;
  }
}

// The schema itself, without a reference, even if it has a name.
Json DescribeSchema(const Schema& schema, OpenApi version) {
  Json out = Json::object();
  if (!schema.description.empty()) out["description"] = schema.description;
  switch (schema.type) {
    case FieldType::kObject:
      DescribeObject(schema, version, out);
      break;
    case FieldType::kMap:
      out["type"] = "object";
      if (schema.element != nullptr) {
        out["additionalProperties"] = RenderUse(*schema.element, version);
      }
      break;
    case FieldType::kList:
      DescribeList(schema, version, out);
      break;
    case FieldType::kInteger:
      out["type"] = "integer";
      break;
    case FieldType::kNumber:
      out["type"] = "number";
      break;
    case FieldType::kBoolean:
      out["type"] = "boolean";
      break;
    case FieldType::kQuantity:
      SetOneOf(out, version, "string", {"string", "number"});
      break;
    case FieldType::kIntOrString:
      SetOneOf(out, version, "string", {"integer", "string"});
      break;
    case FieldType::kString:
    case FieldType::kBytes:
    case FieldType::kTime:
    case FieldType::kMicroTime:
    case FieldType::kDuration:
      out["type"] = "string";
      break;
    case FieldType::kAny:
    case FieldType::kUnion:
      break;  // no single type describes it
  }
  if (!schema.format.empty()) out["format"] = schema.format;
  if (schema.atomic) out["x-kubernetes-map-type"] = "atomic";
  return out;
}

// The schema of a field, an item or a map's member: a reference if `schema` has a name.
Json RenderUse(const Schema& schema, OpenApi version) {
  if (schema.name.empty()) return DescribeSchema(schema, version);
  Json out = SchemaReference(schema.name, version);
  // A field may be atomic although the named schema is merged, or the reverse.
  const Schema* named = api::NamedSchema(schema.name);
  if (named != nullptr && named->atomic != schema.atomic) {
    out["x-kubernetes-map-type"] = schema.atomic ? "atomic" : "granular";
  }
  return out;
}

}  // namespace

Json SchemaReference(std::string_view name, OpenApi version) {
  return {
      {"$ref", fmt::format("#/{}/{}",
                           version == OpenApi::kV2 ? "definitions" : "components/schemas", name)}};
}

Json SchemaDefinition(const Schema& schema, OpenApi version) {
  return DescribeSchema(schema, version);
}

void CollectNamed(const Schema& schema, std::set<const Schema*>& reached) {
  if (!schema.name.empty()) {
    // A field's variant of a named schema counts as the named schema.
    const Schema* named = api::NamedSchema(schema.name);
    if (!reached.insert(named != nullptr ? named : &schema).second) return;
  }
  if (schema.element != nullptr) CollectNamed(*schema.element, reached);
  for (const api::Field& field : schema.fields) {
    if (!field.inlined) {
      CollectNamed(*field.type, reached);
      continue;
    }
    for (const api::Field& inner : field.type->fields) CollectNamed(*inner.type, reached);
  }
}

Json KindReference(std::string_view group, std::string_view version, std::string_view kind) {
  return {{"group", std::string(group)},
          {"version", std::string(version)},
          {"kind", std::string(kind)}};
}

}  // namespace berth::apiserver
