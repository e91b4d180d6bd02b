#include "api/schema/schema.h"

#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <map>

#include "proto/k8s/options.pb.h"

// The descriptors of proto/k8s, which are linked into the program.
extern "C" const char berth_k8s_descriptors[];
extern "C" const char berth_k8s_descriptors_end[];

namespace berth::api {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;

constexpr std::string_view kMetaPackage = "io.k8s.apimachinery.pkg.apis.meta.v1";

// The result of reading the descriptors.
struct Registry {
  SchemaArena arena;
  std::map<std::string, const Schema*, std::less<>> kinds;  // by "apiVersion/kind"
  std::map<std::string, const Schema*, std::less<>> named;
  std::vector<const Schema*> sorted;
};

std::string KindKey(std::string_view api_version, std::string_view kind) {
  return fmt::format("{}/{}", api_version, kind);
}

// Returns the Kubernetes name of a message: package names have '_' for the '-' of Kubernetes'
// names.
std::string ToSchemaName(std::string name) {
  const size_t last = name.rfind('.');
  std::replace(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(last), '_', '-');
  return name;
}

// Joins the lines of a comment into one paragraph.
std::string JoinLines(std::string_view comment) {
  std::string out;
  bool blank = false;
  for (const char c : comment) {
    if (c == ' ' || c == '\n') {
      blank = !out.empty();
    } else {
      if (blank) out += ' ';
      blank = false;
      out += c;
    }
  }
  return out;
}

class Builder {
 public:
  explicit Builder(Registry& registry) : registry_(registry) {
    string_ = AddScalar(FieldType::kString, "");
    int32_ = AddScalar(FieldType::kInteger, "int32");
    int64_ = AddScalar(FieldType::kInteger, "int64");
    boolean_ = AddScalar(FieldType::kBoolean, "");
    number_ = AddScalar(FieldType::kNumber, "double");
    bytes_ = AddScalar(FieldType::kBytes, "byte");
  }

  void Build(const FileDescriptorSet& set) {
    for (const FileDescriptorProto& file : set.file()) DeclareMessages(file);
    for (const FileDescriptorProto& file : set.file()) DefineMessages(file);
    // Types that are atomic in one field only are copied now, because all objects are complete.
    for (const auto& [copy, original] : copies_) {
      const bool atomic = copy->atomic;
      *copy = *original;
      copy->atomic = atomic;
    }
    AddLists();
    for (const auto& [name, schema] : registry_.named) registry_.sorted.push_back(schema);
  }

 private:
  struct Message {
    Schema* schema;
    const DescriptorProto* descriptor;
  };

  const Schema* AddScalar(FieldType type, std::string_view format) {
    Schema* schema = registry_.arena.New();
    schema->type = type;
    schema->format = format;
    return schema;
  }

  static FieldType FormOf(const DescriptorProto& message) {
    switch (message.options().GetExtension(io::k8s::json_form)) {
      case io::k8s::QUANTITY:
        return FieldType::kQuantity;
      case io::k8s::INT_OR_STRING:
        return FieldType::kIntOrString;
      case io::k8s::TIME:
        return FieldType::kTime;
      case io::k8s::MICRO_TIME:
        return FieldType::kMicroTime;
      case io::k8s::ANY:
        return FieldType::kAny;
      case io::k8s::UNION:
        return FieldType::kUnion;
      case io::k8s::OBJECT:
        break;
    }
    return FieldType::kObject;
  }

  static std::string_view FormatOf(FieldType type) {
    switch (type) {
      case FieldType::kTime:
      case FieldType::kMicroTime:
        return "date-time";
      case FieldType::kIntOrString:
        return "int-or-string";
      default:
        return "";
    }
  }

  // Creates the schemas of the file's messages, without fields, because a field may have a message
  // of a later file as its type.
  void DeclareMessages(const FileDescriptorProto& file) {
    for (const DescriptorProto& message : file.message_type()) {
      const std::string full_name = file.package() + "." + message.name();
      Schema* schema = registry_.arena.New();
      schema->type = FormOf(message);
      schema->name = ToSchemaName(full_name);
      schema->format = FormatOf(schema->type);
      schema->atomic = message.options().GetExtension(io::k8s::atomic_type);
      messages_.emplace("." + full_name, Message{schema, &message});
      registry_.named.emplace(schema->name, schema);
    }
  }

  void DefineMessages(const FileDescriptorProto& file) {
    const bool json_only = file.options().GetExtension(io::k8s::json_only_kinds);
    std::map<std::vector<int>, std::string> comments;
    for (const auto& location : file.source_code_info().location()) {
      if (!location.has_leading_comments()) continue;
      comments.emplace(std::vector<int>(location.path().begin(), location.path().end()),
                       JoinLines(location.leading_comments()));
    }
    for (int i = 0; i < file.message_type_size(); ++i) {
      const DescriptorProto& message = file.message_type(i);
      Schema* schema = messages_.at("." + file.package() + "." + message.name()).schema;
      // The path of a comment consists of field numbers of the descriptors and of indexes: message
      // i, and its field j.
      schema->description = comments[{FileDescriptorProto::kMessageTypeFieldNumber, i}];
      if (message.options().HasExtension(io::k8s::api_version)) AddKind(message, schema);
      if (schema->type != FieldType::kObject && schema->type != FieldType::kUnion) continue;
      for (int j = 0; j < message.field_size(); ++j) {
        Field field = FieldOf(message, message.field(j));
        if (json_only) field.number = 0;
        field.description = comments[{FileDescriptorProto::kMessageTypeFieldNumber, i,
                                      DescriptorProto::kFieldFieldNumber, j}];
        schema->fields.push_back(std::move(field));
      }
      schema->fields.shrink_to_fit();
    }
  }

  void AddTypeMeta(Schema* schema) {
    schema->fields.push_back({.name = "apiVersion",
                              .type = string_,
                              .description = "The group and version of the kind."});
    schema->fields.push_back(
        {.name = "kind", .type = string_, .description = "What kind of object this is."});
  }

  void AddKind(const DescriptorProto& message, Schema* schema) {
    AddTypeMeta(schema);
    const std::string& api_version = message.options().GetExtension(io::k8s::api_version);
    if (!api_version.empty()) {
      registry_.kinds.emplace(KindKey(api_version, message.name()), schema);
    }
  }

  // Adds "PodList" for "Pod", for each kind that can be listed.
  void AddLists() {
    const Schema* list_meta = registry_.named.at(fmt::format("{}.ListMeta", kMetaPackage));
    std::vector<std::pair<std::string, const Schema*>> listed;
    for (const auto& [key, schema] : registry_.kinds) {
      const size_t slash = key.rfind('/');
      const std::string_view kind = std::string_view(key).substr(slash + 1);
      if (FindKind(std::string_view(key).substr(0, slash), kind) != nullptr ||
          kind == "PartialObjectMetadata") {
        listed.emplace_back(key + "List", schema);
      }
    }
    for (const auto& [key, item] : listed) {
      Schema* items = registry_.arena.New();
      items->type = FieldType::kList;
      items->element = item;
      Schema* list = registry_.arena.New();
      list->type = FieldType::kObject;
      list->name = item->name + "List";
      list->description = "A list of " + item->name.substr(item->name.rfind('.') + 1) + ".";
      AddTypeMeta(list);
      list->fields.push_back({.name = "metadata", .number = 1, .type = list_meta});
      list->fields.push_back({.name = "items", .number = 2, .required = true, .type = items});
      registry_.named.emplace(list->name, list);
      registry_.kinds.emplace(key, list);
    }
  }

  Field FieldOf(const DescriptorProto& message, const FieldDescriptorProto& descriptor) {
    const auto& options = descriptor.options();
    Field field{.name = descriptor.json_name()};
    if (!options.GetExtension(io::k8s::json_only)) field.number = descriptor.number();
    field.inlined = options.GetExtension(io::k8s::inlined);
    field.required = options.GetExtension(io::k8s::must);
    field.has_presence = descriptor.proto3_optional();
    field.type = TypeOf(message, descriptor);
    if (const std::string& text = options.GetExtension(io::k8s::default_json); !text.empty()) {
      field.default_value = base::Json::parse(text);
    }
    return field;
  }

  const Schema* TypeOf(const DescriptorProto& message, const FieldDescriptorProto& field) {
    const auto& options = field.options();
    if (const DescriptorProto* entry = FindMapEntry(message, field)) {
      Schema* map = registry_.arena.New();
      map->type = FieldType::kMap;
      map->element = SingleType(entry->field(1));
      map->atomic = options.GetExtension(io::k8s::atomic);
      return map;
    }
    const Schema* single = SingleType(field);
    if (field.label() == FieldDescriptorProto::LABEL_REPEATED) return ListOf(single, options);
    const bool atomic = options.GetExtension(io::k8s::atomic);
    if (!atomic && !options.GetExtension(io::k8s::granular)) return single;
    Schema* copy = registry_.arena.New();
    copy->atomic = atomic;
    copies_.emplace_back(copy, single);
    return copy;
  }

  const Schema* ListOf(const Schema* element, const google::protobuf::FieldOptions& options) {
    Schema* list = registry_.arena.New();
    list->type = FieldType::kList;
    list->element = element;
    if (options.GetExtension(io::k8s::apply_set)) list->list_type = ListType::kSet;
    std::string_view keys = options.GetExtension(io::k8s::apply_keys);
    if (!keys.empty()) list->list_type = ListType::kMap;
    while (!keys.empty()) {
      const size_t comma = std::min(keys.find(','), keys.size());
      list->list_keys.emplace_back(keys.substr(0, comma));
      keys.remove_prefix(std::min(comma + 1, keys.size()));
    }
    list->patch_merge_key = options.GetExtension(io::k8s::patch_key);
    list->patch_merge =
        !list->patch_merge_key.empty() || options.GetExtension(io::k8s::patch_values);
    list->patch_retain_keys = options.GetExtension(io::k8s::patch_retain_keys);
    return list;
  }

  // Finds the message of a map field's entries; nullptr if the field is not a map.
  static const DescriptorProto* FindMapEntry(const DescriptorProto& message,
                                             const FieldDescriptorProto& field) {
    if (field.type() != FieldDescriptorProto::TYPE_MESSAGE) return nullptr;
    const std::string_view name(field.type_name());
    for (const DescriptorProto& nested : message.nested_type()) {
      if (nested.options().map_entry() &&
          name.ends_with("." + message.name() + "." + nested.name()))
        return &nested;
    }
    return nullptr;
  }

  const Schema* SingleType(const FieldDescriptorProto& field) {
    switch (field.type()) {
      case FieldDescriptorProto::TYPE_INT32:
        return int32_;
      case FieldDescriptorProto::TYPE_INT64:
        return int64_;
      case FieldDescriptorProto::TYPE_BOOL:
        return boolean_;
      case FieldDescriptorProto::TYPE_DOUBLE:
        return number_;
      case FieldDescriptorProto::TYPE_BYTES:
        return bytes_;
      case FieldDescriptorProto::TYPE_MESSAGE:
        return messages_.at(field.type_name()).schema;
      default:
        return string_;
    }
  }

  Registry& registry_;
  std::map<std::string, Message> messages_;  // by ".package.Name"
  std::vector<std::pair<Schema*, const Schema*>> copies_;
  const Schema* string_;
  const Schema* int32_;
  const Schema* int64_;
  const Schema* boolean_;
  const Schema* number_;
  const Schema* bytes_;
};

// The first call builds it.
const Registry& GetRegistry() {
  static const Registry* const registry = [] {
    FileDescriptorSet set;
    const auto size = berth_k8s_descriptors_end - berth_k8s_descriptors;
    // They cannot be malformed, because they come from the build.
    if (!set.ParseFromArray(berth_k8s_descriptors, static_cast<int>(size))) std::abort();
    auto* built = new Registry;
    Builder(*built).Build(set);
    return built;
  }();
  return *registry;
}

const Schema* FindSchema(const std::map<std::string, const Schema*, std::less<>>& schemas,
                         std::string_view key) {
  const auto it = schemas.find(key);
  return it == schemas.end() ? nullptr : it->second;
}

}  // namespace

const Field* Schema::Find(std::string_view json_name) const {
  for (const Field& field : fields) {
    if (field.inlined) {
      if (const Field* found = field.type->Find(json_name)) return found;
    } else if (field.name == json_name) {
      return &field;
    }
  }
  return nullptr;
}

const Schema* SchemaOf(const KindInfo& info) { return SchemaOf(info.api_version(), info.kind); }

const Schema* SchemaOf(std::string_view api_version, std::string_view kind) {
  return FindSchema(GetRegistry().kinds, KindKey(api_version, kind));
}

const Schema* NamedSchema(std::string_view name) {
  const Schema* shared = FindSchema(GetRegistry().named, fmt::format("{}.{}", kMetaPackage, name));
  return shared != nullptr ? shared : FindSchema(GetRegistry().named, name);
}

const std::vector<const Schema*>& NamedSchemas() { return GetRegistry().sorted; }

}  // namespace berth::api
