// The types of a kind's fields, as one tree. The API server uses it to read and write protobuf,
// check types and unknown fields, write OpenAPI, and merge patches and applied configurations.
//
// Built-in kinds get theirs from proto/k8s/*.proto (SchemaOf), custom resources from their
// CustomResourceDefinition. Immutable once built, thread-safe, pure.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "api/kind_info.h"
#include "base/json.h"

namespace berth::api {

enum class FieldType {
  kObject,  // members by `fields`
  kMap,     // from strings to `element`
  kList,    // of `element`
  kString,
  kInteger,  // int32 or int64, by `format`
  kNumber,
  kBoolean,
  kBytes,     // base64 in JSON
  kQuantity,  // a string, or a number that reads as one
  kIntOrString,
  kTime,       // RFC 3339, whole seconds
  kMicroTime,  // RFC 3339 with six decimals
  kDuration,   // "1h30m"
  kAny,        // any JSON value; in protobuf a RawExtension
  kUnion,      // the one of `fields` whose type fits the JSON value
};

// How server-side apply and strategic merge treat a list.
enum class ListType {
  kAtomic,  // replaced as a whole
  kSet,     // of scalars, merged by value
  kMap,     // of objects, merged by `list_keys`
};

struct Schema;

struct Field {
  std::string name;  // in JSON
  int number = 0;    // in protobuf; 0: the field is not in protobuf
  // The members of this protobuf message field stand directly in the parent in JSON (a
  // PersistentVolume's source). Then `name` is the protobuf name, and `type` an object.
  bool inlined = false;
  bool required = false;
  // The zero of this scalar ("", 0 or false) differs from its absence, so it is kept. For other
  // scalars, protobuf has the zero, and JSON leaves it out unless the field is required.
  bool has_presence = false;
  const Schema* type = nullptr;
  std::string description;
  // The value of an absent member; null: none. Items of a map list may omit a key that has a
  // default (a container port's protocol).
  base::Json default_value;
};

struct Schema {
  FieldType type = FieldType::kAny;
  std::string name;  // "io.k8s.api.core.v1.PodSpec" for named objects, else empty
  std::string description;
  std::string format;               // "int32", "int64", "double", "" ...
  std::vector<Field> fields;        // kObject, in the order of their declaration
  const Schema* element = nullptr;  // kMap, kList
  ListType list_type = ListType::kAtomic;
  std::vector<std::string> list_keys;  // list_type kMap
  // A map or object that apply replaces as a whole (structType or mapType atomic).
  bool atomic = false;
  // Strategic merge merges the list by `patch_merge_key` (empty for a list of scalars) and does not
  // replace it.
  bool patch_merge = false;
  bool patch_retain_keys = false;
  std::string patch_merge_key;
  // Members that `fields` does not list are kept and are no error.
  bool preserve_unknown = false;

  // The member of an object by its JSON name, looked up through inlined fields as well; nullptr if
  // there is none. A linear scan: objects have few fields.
  const Field* Find(std::string_view json_name) const;
};

// Owns the nodes of one or several schemas. The nodes do not move, and live as long as the arena.
class SchemaArena {
 public:
  // Returns a new, empty node.
  Schema* New() { return &nodes_.emplace_back(); }

 private:
  std::deque<Schema> nodes_;
};

// The schema of a built-in kind, with apiVersion, kind and metadata; nullptr if the kind has none,
// such as a custom resource. The first call builds the schemas of all kinds; they live as long as
// the process.
const Schema* SchemaOf(const KindInfo& info);

// The same by apiVersion and kind, also for kinds that are not stored (a TokenRequest, a Status).
const Schema* SchemaOf(std::string_view api_version, std::string_view kind);

// Finds a schema by its full name, or by the short name of a type that all kinds share:
// "DeleteOptions", "ObjectMeta", "ListMeta". nullptr if there is none.
const Schema* NamedSchema(std::string_view name);

// All named schemas of the built-in kinds and their lists, sorted by name: for OpenAPI.
const std::vector<const Schema*>& NamedSchemas();

}  // namespace berth::api
