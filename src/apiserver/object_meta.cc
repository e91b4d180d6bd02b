#include "apiserver/object_meta.h"

#include "api/names.h"
#include "api/time.h"
#include "base/ids.h"

namespace berth::apiserver {

using base::Status;
using base::json::Array;
using base::json::Find;
using base::json::Map;
using base::json::String;

namespace {

constexpr size_t kMaxAnnotations = 256 * 1024;
constexpr size_t kGeneratedPrefix = 58;
constexpr size_t kGeneratedSuffix = 5;

}  // namespace

Status CheckShape(const api::KindInfo& info, Json& object) {
  if (!object.is_object()) {
    return KubeError(Reason::kBadRequest,
                     "the object provided is unrecognized: it is not a JSON object");
  }
  const std::string kind = String(object, {"kind"});
  const std::string version = String(object, {"apiVersion"});
  if ((!kind.empty() && kind != info.kind) || (!version.empty() && version != info.api_version())) {
    return KubeError(
        Reason::kBadRequest,
        fmt::format("{} in version \"{}\" cannot be handled as a {}: converting ({}.{}) to "
                    "({}.{}): unknown conversion",
                    kind, version, info.kind, version, kind, info.api_version(), info.kind));
  }
  object["kind"] = std::string(info.kind);
  object["apiVersion"] = info.api_version();
  Json& metadata = object["metadata"];
  if (metadata.is_null()) metadata = Json::object();
  if (!metadata.is_object()) {
    return KubeError(
        Reason::kBadRequest,
        fmt::format("{} in version \"{}\" cannot be handled as a {}: json: cannot "
                    "unmarshal {} into Go struct field {}.metadata of type "
                    "v1.ObjectMeta",
                    info.kind, info.version, info.kind, metadata.type_name(), info.kind));
  }
  return base::OkStatus();
}

Status FillNamespace(const api::KindInfo& info, std::string_view ns, Json& object) {
  const std::string named = String(object, {"metadata", "namespace"});
  if (!info.namespaced) {
    object["metadata"].erase("namespace");
    return base::OkStatus();
  }
  if (!named.empty() && named != ns) {
    return KubeError(
        Reason::kBadRequest,
        fmt::format("the namespace of the provided object does not match the namespace "
                    "sent on the request ({} != {})",
                    named, ns));
  }
  object["metadata"]["namespace"] = std::string(ns);
  return base::OkStatus();
}

void StampNew(const KindRules& rules, Json& object, std::string_view uid, base::WallTime now) {
  Json& metadata = object["metadata"];
  for (const char* field : {"deletionTimestamp", "deletionGracePeriodSeconds", "generation",
                            "selfLink", "resourceVersion"}) {
    metadata.erase(field);
  }
  metadata["uid"] = std::string(uid);
  metadata["creationTimestamp"] = api::FormatTime(now);
  if (rules.counts_generation) metadata["generation"] = 1;
  if (rules.info->has_status && !rules.created_with_status) {
    object.erase("status");
    if (!rules.initial_status.is_null()) object["status"] = rules.initial_status;
  }
}

std::string GenerateName(std::string_view prefix) {
  return std::string(prefix.substr(0, kGeneratedPrefix)) + base::RandomSuffix(kGeneratedSuffix);
}

void KeepSystemFields(Json& object, const Json& old) {
  Json& metadata = object["metadata"];
  for (const char* field : {"uid", "creationTimestamp", "deletionTimestamp",
                            "deletionGracePeriodSeconds", "generation", "generateName"}) {
    if (const Json* value = Find(old, {"metadata", field})) {
      metadata[field] = *value;
    } else {
      metadata.erase(field);
    }
  }
  metadata.erase("selfLink");
  metadata.erase("resourceVersion");
}

void ValidateMetadata(const KindRules& rules, const Json& object, FieldErrors& errors) {
  const Json& metadata = Map(object, {"metadata"});
  const std::string name = String(metadata, {"name"});
  if (name.empty()) {
    errors.Required("metadata.name", "name or generateName is required");
  } else {
    errors.Check(
        "metadata.name", name,
        rules.check_name != nullptr ? rules.check_name(name) : api::CheckDns1123Subdomain(name));
  }
  for (const auto& [key, value] : Map(metadata, {"labels"}).items()) {
    errors.Check("metadata.labels", key, api::CheckQualifiedName(key));
    errors.Check("metadata.labels", value,
                 api::CheckLabelValue(value.get_ref<const std::string&>()));
  }
  size_t total = 0;
  for (const auto& [key, value] : Map(metadata, {"annotations"}).items()) {
    // Upper case is allowed in the prefix of an annotation's key.
    std::string lower = key;
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    errors.Check("metadata.annotations", key, api::CheckQualifiedName(lower));
    total += key.size() + value.get_ref<const std::string&>().size();
  }
  if (total > kMaxAnnotations) errors.TooLong("metadata.annotations", kMaxAnnotations);
  for (const Json& finalizer : Array(metadata, {"finalizers"})) {
    errors.Check("metadata.finalizers", finalizer,
                 api::CheckQualifiedName(finalizer.get_ref<const std::string&>()));
  }
  size_t i = 0;
  size_t controllers = 0;
  for (const Json& owner : Array(metadata, {"ownerReferences"})) {
    const std::string field = fmt::format("metadata.ownerReferences[{}]", i++);
    for (const char* part : {"apiVersion", "kind", "name", "uid"}) {
      if (String(owner, {part}).empty()) {
        errors.Invalid(fmt::format("{}.{}", field, part), String(owner, {part}),
                       "must not be empty");
      }
    }
    if (base::json::Bool(owner, {"controller"})) ++controllers;
  }
  if (controllers > 1) {
    errors.Invalid("metadata.ownerReferences", Array(metadata, {"ownerReferences"}),
                   "Only one reference can have Controller set to true");
  }
}

void ValidateMetadataUpdate(const Json& object, const Json& old, FieldErrors& errors) {
  if (Find(old, {"metadata", "deletionTimestamp"}) == nullptr) return;
  const Json& before = Array(old, {"metadata", "finalizers"});
  std::string added;
  for (const Json& finalizer : Array(object, {"metadata", "finalizers"})) {
    if (std::find(before.begin(), before.end(), finalizer) != before.end()) continue;
    added += fmt::format("{}{}", added.empty() ? "" : ", ", base::json::Dump(finalizer));
  }
  if (added.empty()) return;
  errors.Forbidden(
      "metadata.finalizers",
      fmt::format("no new finalizers can be added if the object is being deleted, found "
                  "new finalizers []string{{{}}}",
                  added));
}

void KeepAllButStatus(const KindRules& rules, Json& object, const Json& old) {
  Json result = old;
  if (object.contains("status")) {
    result["status"] = std::move(object["status"]);
  } else {
    result.erase("status");
  }
  if (rules.status_keeps_metadata) {
    for (const char* field : {"labels", "annotations", "finalizers"}) {
      if (const Json* value = Find(object, {"metadata", field})) {
        result["metadata"][field] = *value;
      } else {
        result["metadata"].erase(field);
      }
    }
  }
  object = std::move(result);
}

}  // namespace berth::apiserver
