#include "apiserver/kinds/object_meta.h"

#include "api/names.h"
#include "api/time.h"
#include "apiserver/kinds/spec_checks.h"
#include "base/ids.h"

namespace berth::apiserver {

using base::Status;
using base::json::Array;
using base::json::Find;
using base::json::String;

namespace {

constexpr size_t kMaxAnnotations = 256 * 1024;
constexpr size_t kGeneratedPrefix = 58;
constexpr size_t kGeneratedSuffix = 5;

using NameCheck = std::function<Status(std::string_view)>;

void CheckFinalizers(const KindRules& rules, const Checked& finalizers) {
  const auto kinds = api::BuiltInKinds();
  const bool built_in = std::find(kinds.begin(), kinds.end(), rules.info) != kinds.end();
  bool orphan = false;
  bool foreground = false;
  for (const Checked& finalizer : finalizers.Items()) {
    finalizer.Named(finalizers.field()).Is(api::CheckQualifiedName);
    if (built_in) finalizer.Is(CheckFinalizerName);
    orphan |= finalizer.text() == "orphan";
    foreground |= finalizer.text() == "foregroundDeletion";
  }
  if (orphan && foreground) {
    finalizers.Invalid("finalizer orphan and foregroundDeletion cannot be both set");
  }
}

void CheckOwners(const Checked& owners) {
  std::string controller;
  for (const Checked& owner : owners.Items()) {
    const std::string version = owner["apiVersion"].text();
    if (version.empty()) owner["apiVersion"].Invalid("", "version must not be empty");
    for (const std::string_view part : {"kind", "name", "uid"}) {
      if (!owner[part].given()) owner[part].Invalid("", "must not be empty");
    }
    if (owner["kind"].text() == "Event" && (version == "v1" || version == "events.k8s.io/v1")) {
      owner.Named(owners.field())
          .Invalid(fmt::format("{}, Kind=Event is disallowed from being an owner",
                               version == "v1" ? "/v1" : version));
    }
    if (!owner["controller"].flag()) continue;
    if (!controller.empty()) {
      owners.Invalid(
          fmt::format("Only one reference can have Controller set to true. Found "
                      "\"true\" in references for {} and {}",
                      controller, owner["name"].text()));
    }
    controller = owner["name"].text();
  }
}

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

namespace {

// Drops empty maps and lists from metadata, as Kubernetes does, because an absent one means the
// same.
void DropEmpty(Json& metadata) {
  for (const char* field : {"labels", "annotations", "finalizers", "ownerReferences"}) {
    const auto it = metadata.find(field);
    if (it != metadata.end() && it->empty()) metadata.erase(it);
  }
}

}  // namespace

void StampNew(const KindRules& rules, Json& object, std::string_view uid, base::WallTime now) {
  Json& metadata = object["metadata"];
  for (const char* field :
       {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"}) {
    metadata.erase(field);
  }
  DropEmpty(metadata);
  metadata["uid"] = std::string(uid);
  metadata["creationTimestamp"] = api::FormatTime(now);
  // As in Kubernetes, the other kinds keep what the client gives.
  if (rules.counts_generation) metadata["generation"] = 1;
  if (base::json::Int(object, {"metadata", "generation"}) == 0) metadata.erase("generation");
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
  DropEmpty(metadata);
}

void ValidateMetadata(const KindRules& rules, const Json& object, FieldErrors& errors) {
  const Checked metadata = Checked(object, errors)["metadata"];
  const auto check_name =
      rules.check_name != nullptr ? rules.check_name : NameCheck(api::CheckDns1123Subdomain);
  const Checked prefix = metadata["generateName"];
  if (prefix.given()) {
    std::string start = prefix.text();
    if (start.size() > 1 && start.back() == '-') start.back() = 'a';
    errors.Check(prefix.field(), prefix.json(), check_name(start));
  }
  const Checked name = metadata["name"];
  if (name.Needed("name or generateName is required")) {
    errors.Check(name.field(), name.json(), check_name(name.text()));
  }
  CheckLabels(metadata["labels"]);
  CheckAnnotations(metadata["annotations"]);
  size_t total = 0;
  for (const auto& [key, value] : metadata["annotations"].Entries()) {
    total += key.size() + value.text().size();
  }
  if (total > kMaxAnnotations) metadata["annotations"].TooLong(kMaxAnnotations);
  metadata["generation"].AtLeast(0);
  CheckFinalizers(rules, metadata["finalizers"]);
  CheckOwners(metadata["ownerReferences"]);
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

void ValidateKeptMetadata(const Json& object, const Json& old, FieldErrors& errors) {
  const Checked metadata = Checked(object, old, errors)["metadata"];
  // Another creationTimestamp is ignored and not refused. The same holds for another
  // deletionTimestamp of an object that is being deleted.
  const Checked deletion = metadata["deletionTimestamp"];
  if (deletion.present() && !deletion.old().is_string()) deletion.Immutable();
  if (metadata["deletionGracePeriodSeconds"].present()) {
    metadata["deletionGracePeriodSeconds"].Immutable();
  }
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
