#include "apiserver/documents/openapi_custom.h"

#include <algorithm>

namespace berth::apiserver {
namespace {

// The members that OpenAPI version 2, or kubectl's parser of it, does not know.
constexpr const char* kOnlyInV3[] = {"allOf", "anyOf", "oneOf", "not", "nullable"};

bool HasFlag(const Json& schema, const char* flag) {
  return schema.contains(flag) && schema[flag] == true;
}

void AddTypeMeta(Json& properties, OpenApi version) {
  properties["apiVersion"] = {{"type", "string"},
                              {"description", "The group and version of the kind."}};
  properties["kind"] = {{"type", "string"}, {"description", "The kind of the object."}};
  Json metadata = SchemaReference("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", version);
  metadata["description"] = "The object's metadata.";
  if (version == OpenApi::kV3) {
    metadata["allOf"] = Json::array({{{"$ref", metadata["$ref"]}}});
    metadata.erase("$ref");
  }
  properties["metadata"] = std::move(metadata);
}

// Reduces `schema` so that a client of version 2 can check objects with it. It drops what version 2
// cannot express, because the client must accept all objects that the server accepts.
void ReduceToV2(Json& schema) {
  const bool nullable = HasFlag(schema, "nullable");
  for (const char* key : kOnlyInV3) schema.erase(key);
  if (nullable) {
    for (const char* key : {"type", "items", "properties", "additionalProperties"}) {
      schema.erase(key);
    }
  }
  if (HasFlag(schema, "x-kubernetes-preserve-unknown-fields")) {
    schema.erase("items");
    schema.erase("properties");
  }
  if (!schema.contains("properties") || !schema.contains("required")) return;
  // Nullable members are not required, because version 2 would count a null as missing.
  Json required = Json::array();
  for (const Json& name : schema["required"]) {
    if (!name.is_string() || !schema["properties"].contains(name.get<std::string>()) ||
        !HasFlag(schema["properties"][name.get<std::string>()], "nullable")) {
      required.push_back(name);
    }
  }
  schema["required"] = std::move(required);
}

// Adapts `schema` and all schemas below it to the OpenAPI version. The recursion is bounded,
// because the depth of a definition is.
void AdaptSchema(Json& schema, OpenApi version) {
  if (!schema.is_object()) return;
  if (version == OpenApi::kV2) ReduceToV2(schema);
  if (HasFlag(schema, "x-kubernetes-embedded-resource") && schema.contains("properties")) {
    AddTypeMeta(schema["properties"], version);
  }
  for (const char* one : {"items", "additionalProperties", "not"}) {
    if (schema.contains(one)) AdaptSchema(schema[one], version);
  }
  for (const char* list : {"allOf", "anyOf", "oneOf"}) {
    if (!schema.contains(list)) continue;
    for (Json& member : schema[list]) AdaptSchema(member, version);
  }
  if (schema.contains("properties")) {
    for (auto& [name, property] : schema["properties"].items()) AdaptSchema(property, version);
  }
}

}  // namespace

std::string CustomDefinitionName(const api::KindInfo& info) {
  std::string reversed;
  for (std::string_view rest = info.group; !rest.empty();) {
    const size_t dot = rest.rfind('.');
    reversed += rest.substr(dot == std::string_view::npos ? 0 : dot + 1);
    reversed += '.';
    rest = rest.substr(0, dot == std::string_view::npos ? 0 : dot);
  }
  return fmt::format("{}{}.{}", reversed, info.version, info.kind);
}

Json MakeCustomDefinition(const Json& schema, OpenApi version) {
  Json out = schema.is_object() ? schema : Json::object();
  AdaptSchema(out, version);
  out["type"] = "object";
  // No members are listed if there is no schema, or if the schema keeps unknown members.
  if (out.contains("properties")) AddTypeMeta(out["properties"], version);
  return out;
}

Json MakeListDefinition(const std::string& item, std::string_view kind, OpenApi version) {
  Json properties = Json::object();
  AddTypeMeta(properties, version);
  Json metadata = SchemaReference("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", version);
  properties["metadata"] = std::move(metadata);
  properties["items"] = {{"type", "array"},
                         {"description", fmt::format("The objects of kind {}.", kind)},
                         {"items", SchemaReference(item, version)}};
  return {{"type", "object"},
          {"description", fmt::format("A list of {}.", kind)},
          {"properties", std::move(properties)},
          {"required", Json::array({"items"})}};
}

}  // namespace berth::apiserver
