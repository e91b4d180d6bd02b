// A Kubernetes object: JSON with typed access to its metadata.
//
// The JSON is the object. Typed kinds (kinds.h) read and write some members and leave all others as
// they are, so that no unknown field is ever lost. Getters of an absent member, or of one of
// another type, return "", 0, false or an empty container. Not thread-safe; to share an object
// between threads, use std::shared_ptr<const T>.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/event_sink.h"
#include "base/json.h"

namespace berth::api {

using base::Json;
using Labels = std::map<std::string, std::string>;

struct OwnerReference {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool controller = false;
  bool block_owner_deletion = false;
};

class Object {
 public:
  Object() : json_(Json::object()) {}
  explicit Object(Json json) : json_(std::move(json)) {}

  const Json& json() const { return json_; }
  Json& mutable_json() { return json_; }

  std::string api_version() const { return String({"apiVersion"}); }
  std::string kind() const { return String({"kind"}); }

  std::string name() const { return String({"metadata", "name"}); }
  // Namespace; empty for cluster-scoped kinds.
  std::string ns() const { return String({"metadata", "namespace"}); }
  std::string uid() const { return String({"metadata", "uid"}); }
  std::string resource_version() const { return String({"metadata", "resourceVersion"}); }
  // "namespace/name", or "name" if there is no namespace: the key of informers and work queues.
  std::string key() const;
  Labels labels() const { return StringMap({"metadata", "labels"}); }
  Labels annotations() const { return StringMap({"metadata", "annotations"}); }
  std::string label(std::string_view key) const { return String({"metadata", "labels", key}); }
  std::string annotation(std::string_view key) const {
    return String({"metadata", "annotations", key});
  }
  bool has_annotation(std::string_view key) const {
    return base::json::Find(json_, {"metadata", "annotations", key}) != nullptr;
  }
  std::vector<std::string> finalizers() const { return Strings({"metadata", "finalizers"}); }
  bool has_finalizer(std::string_view finalizer) const;
  std::vector<OwnerReference> owner_references() const;
  // The owner with `controller: true`, which manages this object; nullopt if there is none.
  std::optional<OwnerReference> controller() const;
  int64_t generation() const { return Int({"metadata", "generation"}); }
  std::string creation_timestamp() const { return String({"metadata", "creationTimestamp"}); }
  // Whether the object has a deletionTimestamp.
  bool deleting() const {
    return base::json::Find(json_, {"metadata", "deletionTimestamp"}) != nullptr;
  }

  void set_name(std::string_view name) { Set({"metadata", "name"}, std::string(name)); }
  void set_ns(std::string_view ns) { Set({"metadata", "namespace"}, std::string(ns)); }
  void set_label(std::string_view key, std::string_view value) {
    Set({"metadata", "labels", key}, std::string(value));
  }
  void set_annotation(std::string_view key, std::string_view value) {
    Set({"metadata", "annotations", key}, std::string(value));
  }
  void add_finalizer(std::string_view finalizer);     // no-op if present
  void remove_finalizer(std::string_view finalizer);  // no-op if absent

  // A reference to this object, for Events.
  base::ObjectReference reference() const;

  // Read and write members by path, as in base/json.h.
  std::string String(base::json::Path path, std::string_view fallback = "") const {
    return base::json::String(json_, path, fallback);
  }
  bool Bool(base::json::Path path, bool fallback = false) const {
    return base::json::Bool(json_, path, fallback);
  }
  int64_t Int(base::json::Path path, int64_t fallback = 0) const {
    return base::json::Int(json_, path, fallback);
  }
  std::vector<std::string> Strings(base::json::Path path) const;
  Labels StringMap(base::json::Path path) const;
  void Set(base::json::Path path, Json value) { base::json::Set(json_, path, std::move(value)); }

 private:
  Json json_;
};

// "namespace/name" or "name".
std::string ObjectKey(std::string_view ns, std::string_view name);
// The namespace and the name in an ObjectKey; the namespace is "" if the key has none.
std::pair<std::string, std::string> SplitKey(std::string_view key);

}  // namespace berth::api
