#include "apiserver/custom/schema_tree.h"

namespace berth::apiserver {

using api::FieldType;
using api::Schema;

namespace {

class TreeMaker {
 public:
  explicit TreeMaker(api::SchemaArena& arena) : arena_(arena) {}

  Schema* MakeNode(StructuralSchema& node) {
    Schema* made = arena_.New();
    node.tree = made;
    made->type = TypeOf(node);
    made->description = node.description;
    made->format = node.format;
    made->preserve_unknown = node.preserve_unknown;
    made->atomic = node.atomic;
    made->list_type = node.list_type;
    made->list_keys = node.list_keys;
    if (node.items != nullptr) made->element = MakeNode(*node.items);
    if (made->type == FieldType::kMap) {
      made->element =
          node.additional != nullptr ? MakeNode(*node.additional) : MakeScalar(FieldType::kAny);
    }
    for (auto& [name, property] : node.properties) AddField(*made, node, name, MakeNode(*property));
    if (node.embedded) AddIdentity(*made);
    return made;
  }

  // Adds apiVersion, kind and metadata, which a whole object has without listing them.
  void AddIdentity(Schema& object) {
    AddFirst(object, "metadata", api::NamedSchema("ObjectMeta"));
    AddFirst(object, "kind", MakeScalar(FieldType::kString));
    AddFirst(object, "apiVersion", MakeScalar(FieldType::kString));
  }

 private:
  static FieldType TypeOf(const StructuralSchema& node) {
    if (node.int_or_string) return FieldType::kIntOrString;
    if (node.type == "array") return FieldType::kList;
    if (node.type == "string") return FieldType::kString;
    if (node.type == "integer") return FieldType::kInteger;
    if (node.type == "number") return FieldType::kNumber;
    if (node.type == "boolean") return FieldType::kBoolean;
    if (node.type != "object") return FieldType::kAny;
    const bool map = node.properties.empty() && (node.additional != nullptr || node.any_additional);
    return map ? FieldType::kMap : FieldType::kObject;
  }

  Schema* MakeScalar(FieldType type) {
    Schema* made = arena_.New();
    made->type = type;
    return made;
  }

  static void AddField(Schema& object, const StructuralSchema& node, const std::string& name,
                       const Schema* type) {
    api::Field field;
    field.name = name;
    field.type = type;
    field.description = type->description;
    field.required =
        std::find(node.required.begin(), node.required.end(), name) != node.required.end();
    const StructuralSchema* property = node.FindProperty(name);
    if (property->default_value) field.default_value = *property->default_value;
    object.fields.push_back(std::move(field));
  }

  static void AddFirst(Schema& object, std::string_view name, const Schema* type) {
    std::erase_if(object.fields, [&](const api::Field& field) { return field.name == name; });
    api::Field field;
    field.name = name;
    field.type = type;
    field.description = type->description;
    object.fields.insert(object.fields.begin(), std::move(field));
  }

  api::SchemaArena& arena_;
};

}  // namespace

const Schema* MakeSchemaTree(StructuralSchema& schema, std::string name, api::SchemaArena& arena) {
  TreeMaker maker(arena);
  Schema* root = maker.MakeNode(schema);
  root->type = FieldType::kObject;
  root->name = std::move(name);
  if (!schema.embedded) maker.AddIdentity(*root);
  return root;
}

}  // namespace berth::apiserver
