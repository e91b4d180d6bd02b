#include "api/object.h"

namespace berth::api {

using base::json::Array;
using base::json::Bool;

std::string Object::key() const { return ObjectKey(ns(), name()); }

bool Object::has_finalizer(std::string_view finalizer) const {
  const Json& list = Array(json_, {"metadata", "finalizers"});
  return std::find(list.begin(), list.end(), finalizer) != list.end();
}

std::vector<OwnerReference> Object::owner_references() const {
  std::vector<OwnerReference> out;
  for (const Json& owner : Array(json_, {"metadata", "ownerReferences"})) {
    out.push_back({.api_version = base::json::String(owner, {"apiVersion"}),
                   .kind = base::json::String(owner, {"kind"}),
                   .name = base::json::String(owner, {"name"}),
                   .uid = base::json::String(owner, {"uid"}),
                   .controller = base::json::Bool(owner, {"controller"}),
                   .block_owner_deletion = base::json::Bool(owner, {"blockOwnerDeletion"})});
  }
  return out;
}

std::optional<OwnerReference> Object::controller() const {
  for (const OwnerReference& owner : owner_references()) {
    if (owner.controller) return owner;
  }
  return std::nullopt;
}

void Object::add_finalizer(std::string_view finalizer) {
  if (has_finalizer(finalizer)) return;
  Json list = Array(json_, {"metadata", "finalizers"});
  list.push_back(std::string(finalizer));
  Set({"metadata", "finalizers"}, std::move(list));
}

void Object::remove_finalizer(std::string_view finalizer) {
  if (!has_finalizer(finalizer)) return;
  Json list = Array(json_, {"metadata", "finalizers"});
  list.erase(std::remove(list.begin(), list.end(), finalizer), list.end());
  if (list.empty()) {
    base::json::Remove(json_, {"metadata", "finalizers"});
  } else {
    Set({"metadata", "finalizers"}, std::move(list));
  }
}

base::ObjectReference Object::reference() const {
  return {.api_version = api_version(), .kind = kind(), .ns = ns(), .name = name(), .uid = uid()};
}

std::vector<std::string> Object::Strings(base::json::Path path) const {
  std::vector<std::string> out;
  for (const Json& item : Array(json_, path)) {
    if (item.is_string()) out.push_back(item.get<std::string>());
  }
  return out;
}

Labels Object::StringMap(base::json::Path path) const {
  Labels out;
  for (const auto& [key, value] : base::json::Map(json_, path).items()) {
    if (value.is_string()) out.emplace(key, value.get<std::string>());
  }
  return out;
}

std::string ObjectKey(std::string_view ns, std::string_view name) {
  return ns.empty() ? std::string(name) : fmt::format("{}/{}", ns, name);
}

std::pair<std::string, std::string> SplitKey(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return {"", std::string(key)};
  return {std::string(key.substr(0, slash)), std::string(key.substr(slash + 1))};
}

}  // namespace berth::api
