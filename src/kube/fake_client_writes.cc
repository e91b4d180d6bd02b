// The writes of FakeClient, with the rules that the API server has for them.

#include "api/merging/patch.h"
#include "api/time.h"
#include "base/ids.h"
#include "kube/fake_client.h"
#include "kube/fake_client_rules.h"

namespace berth::kube {

using api::KindInfo;
using base::Error;
using base::MutexLock;
using base::StatusCode;
using fake::Meta;
using fake::NotFound;

namespace {

constexpr std::string_view kNoResource = "the server could not find the requested resource";

Status MakeConflict(const KindInfo& kind, std::string_view name, std::string_view why) {
  return Error(StatusCode::kAborted, "Operation cannot be fulfilled on {} \"{}\": {}",
               kind.group_resource(), name, why);
}

constexpr std::string_view kModified =
    "the object has been modified; please apply your changes to the latest version and try again";

std::string ResourceName(const KindInfo& kind, std::string_view subresource) {
  return subresource.empty() ? std::string(kind.plural)
                             : fmt::format("{}/{}", kind.plural, subresource);
}

// Whether a finalizer must be removed before the object may go; a namespace has finalizers in its
// spec, too.
bool HasFinalizers(const KindInfo& kind, const Json& object) {
  return !base::json::Array(object, {"metadata", "finalizers"}).empty() ||
         (&kind == &api::kinds::kNamespace &&
          !base::json::Array(object, {"spec", "finalizers"}).empty());
}

// Sets the finalizers that a delete adds, so that the garbage collector handles the dependents
// first.
void SetPropagation(Json& object, const DeleteOptions& options) {
  if (options.propagation.empty()) return;
  Json finalizers = Json::array();
  for (const Json& finalizer : base::json::Array(object, {"metadata", "finalizers"})) {
    if (finalizer != "orphan" && finalizer != "foregroundDeletion") finalizers.push_back(finalizer);
  }
  if (options.propagation == "Orphan") finalizers.push_back("orphan");
  if (options.propagation == "Foreground") finalizers.push_back("foregroundDeletion");
  base::json::Set(object, {"metadata", "finalizers"}, std::move(finalizers));
}

bool IsBeingDeleted(const Json& object) {
  return base::json::Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
}

void CopyField(const Json& from, Json& to, base::json::Path path) {
  const Json* value = base::json::Find(from, path);
  if (value == nullptr) {
    base::json::Remove(to, path);
  } else {
    base::json::Set(to, path, *value);
  }
}

// Whether metadata.generation counts the changes of the kind's spec.
bool HasGeneration(const KindInfo& kind) {
  return &kind == &api::kinds::kPod || &kind == &api::kinds::kDaemonSet ||
         !api::SupportsStrategicMerge(kind);
}

// Whether a PUT must have a resourceVersion. The other kinds may be overwritten without one.
bool NeedsVersion(const KindInfo& kind) {
  using namespace api::kinds;
  return &kind == &kVolumeAttachment || &kind == &kCsiNode || &kind == &kCsiDriver ||
         &kind == &kCsiStorageCapacity || &kind == &kLease || !api::SupportsStrategicMerge(kind);
}

// Returns the seconds that a pod gets to end; 0 for a pod that does not run.
int64_t GraceSeconds(const Json& pod, const DeleteOptions& options) {
  const std::string phase = base::json::String(pod, {"status", "phase"});
  if (base::json::String(pod, {"spec", "nodeName"}).empty() || phase == "Succeeded" ||
      phase == "Failed") {
    return 0;
  }
  return options.grace_period_seconds.value_or(
      base::json::Int(pod, {"spec", "terminationGracePeriodSeconds"}, 30));
}

StatusOr<Json> ApplyPatch(const KindInfo& kind, PatchType type, const Json& object,
                          const Json& patch) {
  switch (type) {
    case PatchType::kJson:
      return api::ApplyJsonPatch(object, patch);
    case PatchType::kMerge:
      return api::ApplyMergePatch(object, patch);
    case PatchType::kStrategicMerge:
      return api::ApplyStrategicMergePatch(kind, object, patch);
  }
  return Error(StatusCode::kInvalidArgument, "unknown patch type");
}

}  // namespace

StatusOr<Json> FakeClient::Create(const KindInfo& named, std::string_view ns, const Json& object) {
  MutexLock lock(mutex_);
  const KindInfo& kind = FindServedKind(named);
  const std::string name = Meta(object, "name");
  RecordAction("create", kind, ns, name.empty() ? Meta(object, "generateName") + "*" : name, "",
               base::json::Dump(object));
  Status after;
  RETURN_IF_ERROR(TakeFailure("create", kind.plural, after));
  ASSIGN_OR_RETURN(Json created, CreateLocked(kind, ns, object));
  RETURN_IF_ERROR(after);
  return created;
}

StatusOr<Json> FakeClient::CreateLocked(const KindInfo& kind, std::string_view ns, Json object) {
  if (kind.namespaced == ns.empty()) {
    return Error(StatusCode::kInvalidArgument, "{} needs {} namespace", kind.kind,
                 kind.namespaced ? "a" : "no");
  }
  if (!Meta(object, "resourceVersion").empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "resourceVersion should not be set on objects to be created");
  }
  if (!Meta(object, "namespace").empty() && Meta(object, "namespace") != ns) {
    return Error(
        StatusCode::kInvalidArgument,
        "the namespace of the provided object does not match the namespace sent on the request");
  }
  std::string name = Meta(object, "name");
  if (name.empty()) {
    const std::string prefix = Meta(object, "generateName");
    if (prefix.empty()) {
      return Error(
          StatusCode::kInvalidArgument,
          "{} \"\" is invalid: metadata.name: Required value: name or generateName is required",
          kind.kind);
    }
    name = prefix.substr(0, 58) + base::RandomSuffix(5);
  }
  const std::string key = api::ObjectKey(ns, name);
  if (FindLocked(kind, key) != nullptr) {
    return Error(StatusCode::kAlreadyExists, "{} \"{}\" already exists", kind.group_resource(),
                 name);
  }
  object["apiVersion"] = kind.api_version();
  object["kind"] = kind.kind;
  base::json::Set(object, {"metadata", "name"}, name);
  if (!ns.empty()) base::json::Set(object, {"metadata", "namespace"}, std::string(ns));
  base::json::Set(object, {"metadata", "uid"}, base::NewUuid());
  base::json::Set(object, {"metadata", "creationTimestamp"}, Now());
  for (const std::string_view field :
       {"deletionTimestamp", "deletionGracePeriodSeconds", "generation"}) {
    base::json::Remove(object, {"metadata", field});
  }
  if (HasGeneration(kind)) base::json::Set(object, {"metadata", "generation"}, 1);
  if (kind.has_status) {
    object.erase("status");
    if (&kind == &api::kinds::kPod || &kind == &api::kinds::kPersistentVolume ||
        &kind == &api::kinds::kPersistentVolumeClaim) {
      base::json::Set(object, {"status", "phase"}, "Pending");
    }
  }
  return CommitChange(kind, key, std::move(object));
}

StatusOr<Json> FakeClient::Update(const KindInfo& named, const Json& object,
                                  std::string_view subresource) {
  MutexLock lock(mutex_);
  const KindInfo& kind = FindServedKind(named);
  const std::string ns = Meta(object, "namespace");
  const std::string name = Meta(object, "name");
  RecordAction("update", kind, ns, name, subresource, base::json::Dump(object));
  Status after;
  RETURN_IF_ERROR(TakeFailure("update", ResourceName(kind, subresource), after));
  if (FindLocked(kind, api::ObjectKey(ns, name)) == nullptr) return NotFound(kind, name);
  if (NeedsVersion(kind) && Meta(object, "resourceVersion").empty()) {
    return Error(
        StatusCode::kInvalidArgument,
        "{} \"{}\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified "
        "for an update",
        kind.kind, name);
  }
  ASSIGN_OR_RETURN(Json updated, UpdateLocked(kind, api::ObjectKey(ns, name), object, subresource));
  RETURN_IF_ERROR(after);
  return updated;
}

StatusOr<Json> FakeClient::UpdateLocked(const KindInfo& kind, const std::string& key, Json object,
                                        std::string_view subresource) {
  const Json present = *FindLocked(kind, key);
  const std::string name = Meta(present, "name");
  const bool finalize = subresource == "finalize" && &kind == &api::kinds::kNamespace;
  if (!subresource.empty() && !finalize && (subresource != "status" || !kind.has_status)) {
    return Error(StatusCode::kNotFound, "{}", kNoResource);
  }
  const std::string version = Meta(object, "resourceVersion");
  if (!version.empty() && version != Meta(present, "resourceVersion")) {
    return MakeConflict(kind, name, kModified);
  }
  if (const std::string uid = Meta(object, "uid"); !uid.empty() && uid != Meta(present, "uid")) {
    return MakeConflict(
        kind, name,
        fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}", uid,
                    Meta(present, "uid")));
  }

  Json next;
  if (subresource == "status") {
    next = present;
    CopyField(object, next, {"status"});
    // For the built-in kinds, Kubernetes takes these fields from a status write, too. The node
    // agent relies on that.
    if (api::SupportsStrategicMerge(kind)) {
      for (const std::string_view field : {"labels", "annotations", "finalizers"}) {
        CopyField(object, next, {"metadata", field});
      }
    }
  } else if (finalize) {
    next = present;
    CopyField(object, next, {"spec", "finalizers"});
  } else {
    next = std::move(object);
    if (&kind == &api::kinds::kNamespace) CopyField(present, next, {"spec", "finalizers"});
    if (kind.has_status) CopyField(present, next, {"status"});
    for (const std::string_view field :
         {"name", "namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp",
          "deletionGracePeriodSeconds"}) {
      CopyField(present, next, {"metadata", field});
    }
    next["apiVersion"] = kind.api_version();
    next["kind"] = kind.kind;
  }
  CopyField(present, next, {"metadata", "resourceVersion"});
  if (next == present) return present;

  if (IsBeingDeleted(present)) {
    const Json& old = base::json::Array(present, {"metadata", "finalizers"});
    for (const Json& finalizer : base::json::Array(next, {"metadata", "finalizers"})) {
      if (std::find(old.begin(), old.end(), finalizer) != old.end()) continue;
      return Error(
          StatusCode::kInvalidArgument,
          "{} \"{}\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if "
          "the object is being deleted, found new finalizers []string{{{}}}",
          kind.kind, name, base::json::Dump(finalizer));
    }
  }
  if (HasGeneration(kind) &&
      base::json::Map(next, {"spec"}) != base::json::Map(present, {"spec"})) {
    base::json::Set(next, {"metadata", "generation"},
                    base::json::Int(present, {"metadata", "generation"}) + 1);
  }
  const bool gone = IsBeingDeleted(next) && !HasFinalizers(kind, next) &&
                    base::json::Int(next, {"metadata", "deletionGracePeriodSeconds"}) == 0;
  if (gone) {
    CommitChange(kind, key, nullptr);
    return next;
  }
  return CommitChange(kind, key, std::move(next));
}

StatusOr<Json> FakeClient::Patch(const KindInfo& named, std::string_view ns, std::string_view name,
                                 PatchType type, const Json& patch, std::string_view subresource) {
  MutexLock lock(mutex_);
  const KindInfo& kind = FindServedKind(named);
  const std::string_view prefix = type == PatchType::kJson             ? "json "
                                  : type == PatchType::kStrategicMerge ? "strategic "
                                                                       : "";
  RecordAction("patch", kind, ns, name, subresource,
               fmt::format("{}{}", prefix, base::json::Dump(patch)));
  Status after;
  RETURN_IF_ERROR(TakeFailure("patch", ResourceName(kind, subresource), after));
  const std::string key = api::ObjectKey(ns, name);
  const Json* present = FindLocked(kind, key);
  if (present == nullptr) return NotFound(kind, name);
  StatusOr<Json> patched = ApplyPatch(kind, type, *present, patch);
  if (!patched.ok()) {
    return Status(StatusCode::kInvalidArgument, patched.status().message());
  }
  ASSIGN_OR_RETURN(Json updated, UpdateLocked(kind, key, *std::move(patched), subresource));
  RETURN_IF_ERROR(after);
  return updated;
}

Status FakeClient::Delete(const KindInfo& named, std::string_view ns, std::string_view name,
                          const DeleteOptions& options) {
  MutexLock lock(mutex_);
  const KindInfo& kind = FindServedKind(named);
  RecordAction("delete", kind, ns, name, "", "");
  Status after;
  RETURN_IF_ERROR(TakeFailure("delete", kind.plural, after));
  if (FindLocked(kind, api::ObjectKey(ns, name)) == nullptr) return NotFound(kind, name);
  RETURN_IF_ERROR(DeleteLocked(kind, api::ObjectKey(ns, name), options));
  return after;
}

Status FakeClient::DeleteLocked(const KindInfo& kind, const std::string& key,
                                const DeleteOptions& options) {
  Json object = *FindLocked(kind, key);
  const std::string name = Meta(object, "name");
  if (!options.uid.empty() && options.uid != Meta(object, "uid")) {
    return MakeConflict(
        kind, name,
        fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}",
                    options.uid, Meta(object, "uid")));
  }
  if (!options.resource_version.empty() &&
      options.resource_version != Meta(object, "resourceVersion")) {
    return MakeConflict(kind, name, "Precondition failed: resourceVersion differs");
  }
  const Json before = object;
  SetPropagation(object, options);
  int64_t grace = &kind == &api::kinds::kPod ? GraceSeconds(object, options) : 0;
  const int64_t present_grace = base::json::Int(object, {"metadata", "deletionGracePeriodSeconds"});
  if (IsBeingDeleted(object)) grace = std::min(grace, present_grace);
  if (grace == 0 && !HasFinalizers(kind, object)) {
    CommitChange(kind, key, nullptr);
    return base::OkStatus();
  }
  if (IsBeingDeleted(object) && grace == present_grace && object == before) return base::OkStatus();
  base::json::Set(object, {"metadata", "deletionTimestamp"},
                  api::FormatTime(clock_->Now() + std::chrono::seconds(grace)));
  base::json::Set(object, {"metadata", "deletionGracePeriodSeconds"}, grace);
  if (const int64_t generation = base::json::Int(object, {"metadata", "generation"});
      generation > 0) {
    base::json::Set(object, {"metadata", "generation"}, generation + 1);
  }
  if (&kind == &api::kinds::kNamespace) {
    base::json::Set(object, {"status", "phase"}, "Terminating");
  }
  CommitChange(kind, key, std::move(object));
  return base::OkStatus();
}

Status FakeClient::DeleteCollection(const KindInfo& named, std::string_view ns,
                                    const DeleteOptions& options) {
  MutexLock lock(mutex_);
  const KindInfo& kind = FindServedKind(named);
  RecordAction("deletecollection", kind, ns, "", "", "");
  Status after;
  RETURN_IF_ERROR(TakeFailure("deletecollection", kind.plural, after));
  std::vector<std::string> keys;
  for (const auto& [key, object] : objects_[&kind]) {
    if (ns.empty() || Meta(object, "namespace") == ns) keys.push_back(key);
  }
  DeleteOptions each = options;
  each.uid.clear();
  each.resource_version.clear();
  for (const std::string& key : keys) RETURN_IF_ERROR(DeleteLocked(kind, key, each));
  return after;
}

StatusOr<Json> FakeClient::CreateSubresource(const KindInfo& named, std::string_view ns,
                                             std::string_view name, std::string_view subresource,
                                             const Json& body) {
  MutexLock lock(mutex_);
  const KindInfo& kind = FindServedKind(named);
  RecordAction("create", kind, ns, name, subresource, base::json::Dump(body));
  Status after;
  RETURN_IF_ERROR(TakeFailure("create", ResourceName(kind, subresource), after));
  const std::string key = api::ObjectKey(ns, name);
  if (FindLocked(kind, key) == nullptr) return NotFound(kind, name);
  if (&kind == &api::kinds::kPod && subresource == "binding") {
    RETURN_IF_ERROR(BindLocked(kind, key, body));
    RETURN_IF_ERROR(after);
    return Json{{"apiVersion", "v1"}, {"kind", "Status"}, {"status", "Success"}};
  }
  if (&kind == &api::kinds::kServiceAccount && subresource == "token") {
    ASSIGN_OR_RETURN(Json token, MakeTokenLocked(key, body));
    RETURN_IF_ERROR(after);
    return token;
  }
  return Error(StatusCode::kNotFound, "{}", kNoResource);
}

Status FakeClient::BindLocked(const KindInfo& kind, const std::string& key, const Json& body) {
  Json pod = *FindLocked(kind, key);
  const std::string name = Meta(pod, "name");
  const std::string node = base::json::String(body, {"target", "name"});
  if (node.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "Binding \"{}\" is invalid: target.name: Required value", name);
  }
  if (IsBeingDeleted(pod)) {
    return MakeConflict(kind, name,
                        fmt::format("pod {} is being deleted, cannot be assigned to a host", name));
  }
  if (const std::string bound = base::json::String(pod, {"spec", "nodeName"}); !bound.empty()) {
    return MakeConflict(kind, name,
                        fmt::format("pod {} is already assigned to node \"{}\"", name, bound));
  }
  base::json::Set(pod, {"spec", "nodeName"}, node);
  Json conditions = base::json::Array(pod, {"status", "conditions"});
  conditions.erase(std::remove_if(conditions.begin(), conditions.end(),
                                  [](const Json& condition) {
                                    return base::json::String(condition, {"type"}) ==
                                           "PodScheduled";
                                  }),
                   conditions.end());
  conditions.push_back(
      {{"type", "PodScheduled"}, {"status", "True"}, {"lastTransitionTime", Now()}});
  base::json::Set(pod, {"status", "conditions"}, std::move(conditions));
  for (const auto& [annotation, value] :
       base::json::Map(body, {"metadata", "annotations"}).items()) {
    base::json::Set(pod, {"metadata", "annotations", annotation}, value);
  }
  CommitChange(kind, key, std::move(pod));
  return base::OkStatus();
}

StatusOr<Json> FakeClient::MakeTokenLocked(const std::string& key, const Json& body) {
  const int64_t seconds = base::json::Int(body, {"spec", "expirationSeconds"}, 3600);
  Json token = body;
  base::json::Set(token, {"status", "token"}, fmt::format("token-of-{}-{}", key, ++version_));
  base::json::Set(token, {"status", "expirationTimestamp"},
                  api::FormatTime(clock_->Now() + std::chrono::seconds(seconds)));
  return token;
}

}  // namespace berth::kube
