#include "apiserver/kinds/write_rules.h"

#include "api/time.h"
#include "apiserver/kinds/object_meta.h"
#include "apiserver/kinds/stored_form.h"
#include "base/ids.h"

namespace berth::apiserver {

using base::Status;
using base::json::Array;
using base::json::Find;
using base::json::Int;
using base::json::Map;
using base::json::String;
using Action = Mutation::Plan::Action;

namespace {

constexpr int64_t kDefaultGrace = 30;  // seconds
// How much the server may add to an object of the maximum size.
constexpr size_t kDefaultsRoom = 64 * 1024;

// `ephemeral`: the update changes only the ephemeral containers.
Status ValidateObject(const KindRules& rules, const Json& object, const Json* old,
                      bool ephemeral = false) {
  FieldErrors errors;
  ValidateMetadata(rules, object, errors);
  if (old != nullptr) ValidateMetadataUpdate(object, *old, errors);
  if (rules.validate != nullptr) rules.validate(object, errors);
  if (old == nullptr && rules.validate_create != nullptr) rules.validate_create(object, errors);
  const auto& update = ephemeral ? rules.validate_ephemeral : rules.validate_update;
  if (old != nullptr && update != nullptr) update(object, *old, errors);
  std::string name = String(object, {"metadata", "name"});
  if (name.empty()) name = String(object, {"metadata", "generateName"});
  return errors.ToStatus(*rules.info, name);
}

void BumpGeneration(Json& object) {
  const int64_t generation = Int(object, {"metadata", "generation"});
  if (generation > 0) base::json::Set(object, {"metadata", "generation"}, generation + 1);
}

bool ChangesGeneration(const KindRules& rules, const Json& object, const Json& old) {
  if (!rules.counts_all_changes) return Map(object, {"spec"}) != Map(old, {"spec"});
  const auto counted = [&](Json one) {
    one.erase("metadata");
    if (rules.info->has_status) one.erase("status");
    return one;
  };
  return counted(object) != counted(old);
}

bool HasFinalizers(const Json& object) {
  return !Array(object, {"metadata", "finalizers"}).empty();
}

// Whether finalizers still hold the object.
bool IsHeld(const KindRules& rules, const Json& object) {
  return HasFinalizers(object) ||
         (rules.has_spec_finalizers && !Array(object, {"spec", "finalizers"}).empty());
}

// How long the node agent may take to end the pod, in seconds; nullopt if the pod's present value
// stays.
std::optional<int64_t> PodGrace(const Json& pod, std::optional<int64_t> asked) {
  const Json* left = Find(pod, {"metadata", "deletionGracePeriodSeconds"});
  if (left != nullptr && !asked) return std::nullopt;
  int64_t grace =
      asked.value_or(Int(pod, {"spec", "terminationGracePeriodSeconds"}, kDefaultGrace));
  if (grace < 0) grace = 1;
  const std::string phase = String(pod, {"status", "phase"});
  // The time is zero if no node agent runs the pod, because then there is nothing to end.
  if (String(pod, {"spec", "nodeName"}).empty() || phase == "Succeeded" || phase == "Failed")
    grace = 0;
  if (left != nullptr && left->is_number_integer() && grace >= left->get<int64_t>()) {
    // A second delete can only shorten the time. At zero with finalizers nothing is left to change.
    if (!(grace == 0 && !HasFinalizers(pod))) return std::nullopt;
  }
  return grace;
}

void SetFinalizers(Json& object, Json finalizers) {
  if (finalizers.empty()) {
    base::json::Remove(object, {"metadata", "finalizers"});
  } else {
    base::json::Set(object, {"metadata", "finalizers"}, std::move(finalizers));
  }
}

void MarkDeleted(Json& object, int64_t grace, base::WallTime now) {
  base::json::Set(object, {"metadata", "deletionTimestamp"},
                  api::FormatTime(now + std::chrono::seconds(grace)));
  base::json::Set(object, {"metadata", "deletionGracePeriodSeconds"}, grace);
  BumpGeneration(object);
}

// A 409 that names the kind instead of the resource, as kube-apiserver does for deletes.
Status PreconditionError(const api::KindInfo& info, const std::string& name, std::string_view field,
                         std::string_view wanted, std::string_view found, std::string_view guess) {
  const std::string kind =
      info.group.empty() ? std::string(info.kind) : fmt::format("{}.{}", info.kind, info.group);
  return KubeError(
      Reason::kConflict,
      fmt::format("Operation cannot be fulfilled on {0} \"{1}\": the {2} in the precondition ({3}) "
                  "does not match the {2} in record ({4}). {5}",
                  kind, name, field, wanted, found, guess),
      {.name = name, .group = std::string(info.group), .kind = std::string(info.kind)});
}

Status CheckPreconditions(const KindRules& rules, const Json& object, store::Revision revision,
                          const DeleteRequest& request) {
  const std::string name = String(object, {"metadata", "name"});
  const std::string uid = String(object, {"metadata", "uid"});
  if (!request.uid.empty() && request.uid != uid) {
    return PreconditionError(*rules.info, name, "UID", request.uid, uid,
                             "The object might have been deleted and then recreated");
  }
  const std::string version = std::to_string(revision);
  if (!request.resource_version.empty() && request.resource_version != version) {
    return PreconditionError(*rules.info, name, "ResourceVersion", request.resource_version,
                             version, "The object might have been modified");
  }
  return base::OkStatus();
}

// managedFields has bounds of its own, because it nests deeper than the fields that it describes
// and may be as large as the rest of the object.
Status CheckBounds(const Json& object, size_t bytes) {
  const base::json::ParseLimits limits;
  const Json* managed = Find(object, {"metadata", "managedFields"});
  size_t own_bytes = bytes;
  if (bytes > limits.max_bytes && managed != nullptr)
    own_bytes -= base::json::Dump(*managed).size();
  if (own_bytes > limits.max_bytes + kDefaultsRoom ||
      bytes > 2 * limits.max_bytes + kDefaultsRoom) {
    return KubeError(
        Reason::kRequestEntityTooLarge,
        fmt::format("Request entity too large: the object would have {} bytes, limit is {}", bytes,
                    limits.max_bytes));
  }
  const auto is_managed = [managed](const Json& value) { return &value == managed; };
  if (base::json::IsDeeperThan(object, limits.max_depth, is_managed)) {
    return KubeError(
        Reason::kRequestEntityTooLarge,
        fmt::format("Request entity too large: the object would nest deeper than {} levels",
                    limits.max_depth));
  }
  return base::OkStatus();
}

}  // namespace

Status CheckName(const Json& object, std::string_view name) {
  const std::string found = String(object, {"metadata", "name"});
  if (found == name) return base::OkStatus();
  return KubeError(
      Reason::kBadRequest,
      fmt::format("the name of the object ({}) does not match the name on the URL ({})", found,
                  name));
}

Status CheckUpdatePreconditions(const KindRules& rules, const Json& object, const Json& old,
                                store::Revision revision) {
  const std::string name = String(old, {"metadata", "name"});
  const std::string version = String(object, {"metadata", "resourceVersion"});
  if (!version.empty() && version != std::to_string(revision)) return StaleError(*rules.info, name);
  const std::string uid = String(object, {"metadata", "uid"});
  if (!uid.empty() && uid != String(old, {"metadata", "uid"})) {
    return ConflictError(
        *rules.info, name,
        fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}", uid,
                    String(old, {"metadata", "uid"})));
  }
  return base::OkStatus();
}

Status PrepareNew(const KindRules& rules, Json& object, const FieldTracker& tracker, Lookup& lookup,
                  base::WallTime now) {
  StampNew(rules, object, base::NewUuid(), now);
  const std::string prefix = String(object, {"metadata", "generateName"});
  if (String(object, {"metadata", "name"}).empty() && !prefix.empty()) {
    object["metadata"]["name"] = GenerateName(prefix);
  }
  if (rules.defaults != nullptr) rules.defaults(object);
  tracker.SetManagedFields(rules, object, nullptr);
  if (rules.admit_create != nullptr) RETURN_IF_ERROR(rules.admit_create(object, lookup));
  return ValidateObject(rules, object, nullptr);
}

Status PrepareUpdate(const KindRules& rules, Json& object, const Json& old,
                     std::string_view subresource, const FieldTracker& tracker, Lookup& lookup,
                     base::WallTime now) {
  FieldErrors kept;
  ValidateKeptMetadata(object, old, kept);
  RETURN_IF_ERROR(kept.ToStatus(*rules.info, String(old, {"metadata", "name"})));
  KeepSystemFields(object, old);
  if (subresource == "finalize") {
    const Json finalizers = Array(object, {"spec", "finalizers"});
    object = old;
    base::json::Set(object, {"spec", "finalizers"}, finalizers);
    return ValidateObject(rules, object, &old);
  }
  if (subresource == "status") {
    KeepAllButStatus(rules, object, old);
    tracker.SetManagedFields(rules, object, &old);
    if (rules.admit_status != nullptr) rules.admit_status(object, old, now);
    FieldTracker::KeepTimes(object, old);
    FieldErrors errors;
    ValidateMetadata(rules, object, errors);
    ValidateMetadataUpdate(object, old, errors);
    if (rules.validate_status != nullptr) rules.validate_status(object, old, errors);
    return errors.ToStatus(*rules.info, String(object, {"metadata", "name"}));
  }
  const bool ephemeral = subresource == "ephemeralcontainers";
  if (ephemeral) {
    Json containers = Array(object, {"spec", "ephemeralContainers"});
    object = old;
    base::json::Set(object, {"spec", "ephemeralContainers"}, std::move(containers));
  }
  if (rules.info->has_status) {
    object.erase("status");
    if (const Json* status = Find(old, {"status"})) object["status"] = *status;
  }
  if (rules.defaults != nullptr) rules.defaults(object);
  tracker.SetManagedFields(rules, object, &old);
  if (rules.admit_update != nullptr) RETURN_IF_ERROR(rules.admit_update(object, old, lookup));
  if (rules.counts_generation && ChangesGeneration(rules, object, old)) BumpGeneration(object);
  FieldTracker::KeepTimes(object, old);
  return ValidateObject(rules, object, &old, ephemeral);
}

base::StatusOr<Mutation::Plan> PlanUpdate(const KindRules& rules, const Json& object,
                                          const store::Record& current) {
  Mutation::Plan plan{.text = EncodeStored(rules, object)};
  RETURN_IF_ERROR(CheckBounds(object, plan.text.size()));
  const Json* grace = Find(object, {"metadata", "deletionGracePeriodSeconds"});
  const bool deleting = Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
  if (deleting && !IsHeld(rules, object) && (grace == nullptr || *grace == 0)) {
    plan.action = Action::kDelete;
  } else if (plan.text != *current.value) {
    plan.action = Action::kPut;
  }
  return plan;
}

base::StatusOr<DeleteRequest> ParseDeleteOptions(const Json& body) {
  DeleteRequest request;
  if (body.is_null()) return request;
  if (!body.is_object()) return KubeError(Reason::kBadRequest, "DeleteOptions must be an object");
  if (const Json* grace = Find(body, {"gracePeriodSeconds"});
      grace != nullptr && !grace->is_null()) {
    if (!grace->is_number_integer()) {
      return KubeError(Reason::kBadRequest, "gracePeriodSeconds must be a whole number");
    }
    request.grace_seconds = grace->get<int64_t>();
  }
  ASSIGN_OR_RETURN(request.propagation, ParsePropagation(body));
  request.uid = String(body, {"preconditions", "uid"});
  request.resource_version = String(body, {"preconditions", "resourceVersion"});
  for (const Json& dry : Array(body, {"dryRun"})) {
    if (dry != "All")
      return KubeError(Reason::kInvalid, "dryRun: the only supported value is \"All\"");
    request.dry_run = true;
  }
  return request;
}

base::StatusOr<Mutation::Plan> PlanDelete(const KindRules& rules, const store::Record& current,
                                          const DeleteRequest& request, base::WallTime now) {
  ASSIGN_OR_RETURN(Json object, DecodeStored(*current.value));
  RETURN_IF_ERROR(CheckPreconditions(rules, object, current.revision, request));
  Mutation::Plan plan{.text = *current.value};
  const bool deleting = Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
  if (!deleting && rules.before_delete != nullptr) rules.before_delete(object);
  Json finalizers = FinalizersAfterDelete(rules, object, request.propagation);
  const bool same_finalizers = finalizers == Array(object, {"metadata", "finalizers"});
  int64_t grace = 0;
  if (rules.graceful) {
    const auto pod_grace = PodGrace(object, request.grace_seconds);
    if (!pod_grace) return plan;
    grace = *pod_grace;
  } else if (deleting && IsHeld(rules, object) && same_finalizers) {
    return plan;
  }
  if (!same_finalizers) SetFinalizers(object, std::move(finalizers));
  if (grace == 0 && !IsHeld(rules, object)) {
    plan.action = Action::kDelete;
    return plan;
  }
  if (rules.graceful || !deleting) MarkDeleted(object, grace, now);
  if (rules.on_delete != nullptr) rules.on_delete(object);
  plan.action = Action::kPut;
  plan.text = EncodeObject(object);
  return plan;
}

}  // namespace berth::apiserver
