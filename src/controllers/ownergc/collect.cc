// Checks whether an object's owners still exist, and deletes or frees the object (owner_gc.h).
#include <algorithm>

#include "base/log.h"
#include "controllers/ownergc/owner_gc.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::ownergc {

using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr size_t kMaxAbsent = 512;
constexpr size_t kMaxReported = 4096;

// The references of `object` whose owners are in `kept`, as they stand there.
Json ReferencesOf(const api::Object& object, const std::vector<api::OwnerReference>& kept) {
  Json references = Json::array();
  for (const Json& one : base::json::Array(object.json(), {"metadata", "ownerReferences"})) {
    const std::string uid = base::json::String(one, {"uid"});
    if (std::any_of(kept.begin(), kept.end(), [&](const auto& keep) { return keep.uid == uid; })) {
      references.push_back(one);
    }
  }
  return references;
}

Json ReferencesPatch(const api::Object& object, Json references) {
  // The patch replaces the whole list, so it applies only to the version that was read.
  return {{"metadata",
           {{"resourceVersion", object.resource_version()},
            {"uid", object.uid()},
            {"ownerReferences", std::move(references)}}}};
}

std::string ReferenceText(const api::OwnerReference& reference, std::string_view ns) {
  return fmt::format("[{}/{}, namespace: {}, name: {}, uid: {}]", reference.api_version,
                     reference.kind, ns, reference.name, reference.uid);
}

}  // namespace

OwnerGc::Outcome OwnerGc::Collect(const std::string& uid, const GraphNode& node) {
  const StatusOr<api::Object> live = ReadLive(uid, node);
  if (live.status().code() == StatusCode::kNotFound) return Outcome::Done();
  if (!live.ok()) return AfterApi(live.status());
  if (live->deleting() || live->owner_references().empty()) return Outcome::Done();
  const StatusOr<Verdict> verdict = JudgeObject(*live, node);
  if (!verdict.ok()) return AfterApi(verdict.status());
  if (!verdict->stay.empty()) {
    if (verdict->absent.empty() && verdict->wait.empty()) return Outcome::Done();
    // An owner that waits for its dependents must not wait for an object that another owner keeps.
    return AfterApi(KeepReferences(node, *live, verdict->stay));
  }
  if (verdict->unresolvable) return Outcome::Done();
  if (!verdict->wait.empty() && !node.dependents.empty()) {
    // If a dependent waits too, each would wait for the other.
    const StatusOr<api::Object> freed = DependentWaits(uid) ? StopBlocking(node, *live) : live;
    if (!freed.ok()) return AfterApi(freed.status());
    return AfterApi(DeleteObject(node, *freed, "Foreground"));
  }
  const std::string_view propagation = live->has_finalizer(kOrphan)               ? "Orphan"
                                       : live->has_finalizer(kForegroundDeletion) ? "Foreground"
                                                                                  : "Background";
  return AfterApi(DeleteObject(node, *live, propagation));
}

StatusOr<api::Object> OwnerGc::ReadLive(const std::string& uid, const GraphNode& node) {
  StatusOr<Json> read = context_.client.Get(node.kind->info(), node.ns, node.name);
  if (read.ok() && base::json::String(*read, {"metadata", "uid"}) == uid) {
    return api::Object(*std::move(read));
  }
  if (!read.ok() && read.status().code() != StatusCode::kNotFound) return read.status();
  // The object is gone, or another object has its name, and the watch has not reported it yet.
  OnGone(node.kind, uid);
  return base::Error(StatusCode::kNotFound, "'{}' is gone", node.name);
}

StatusOr<OwnerGc::Verdict> OwnerGc::JudgeObject(const api::Object& object, const GraphNode& node) {
  Verdict verdict;
  for (const api::OwnerReference& reference : object.owner_references()) {
    ASSIGN_OR_RETURN(const Owner owner, JudgeOwner(reference, object, node));
    switch (owner) {
      case Owner::kStays:
        verdict.stay.push_back(reference);
        break;
      case Owner::kWaits:
        verdict.wait.push_back(reference);
        break;
      case Owner::kAbsent:
        verdict.absent.push_back(reference);
        break;
      case Owner::kNeverAbsent:
        verdict.unresolvable = true;
        break;
    }
  }
  return verdict;
}

StatusOr<OwnerGc::Owner> OwnerGc::JudgeOwner(const api::OwnerReference& reference,
                                             const api::Object& object, const GraphNode& node) {
  const KindPtr kind = FindKind(reference.api_version, reference.kind);
  if (kind == nullptr) {
    workers_.AddAfter("", options_.discovery_delay);
    return base::Error(StatusCode::kFailedPrecondition,
                       "{} '{}' has an owner of kind {} in {}, which the API does not serve",
                       node.kind->info().singular, object.key(), reference.kind,
                       reference.api_version);
  }
  if (kind->info().namespaced && object.ns().empty()) {
    ReportInvalidOwner(reference, object);
    return Owner::kNeverAbsent;
  }
  const std::string ns = kind->info().namespaced ? object.ns() : "";
  const std::string text = ReferenceText(reference, ns);
  bool elsewhere = false;  // the uid exists, but not with the name or namespace of the reference
  {
    MutexLock lock(mutex_);
    if (absent_.contains(text)) return Owner::kAbsent;
    const GraphNode* owner = graph_.Find(reference.uid);
    if (owner != nullptr && owner->present) {
      elsewhere = !Graph::NamesOwner(reference, object.ns(), *owner);
      if (!elsewhere && !owner->deleting) return Owner::kStays;
    }
  }
  const StatusOr<Json> live = context_.client.Get(kind->info(), ns, reference.name);
  if (!live.ok() && live.status().code() != StatusCode::kNotFound) return live.status();
  if (!live.ok() || base::json::String(*live, {"metadata", "uid"}) != reference.uid) {
    if (elsewhere) ReportInvalidOwner(reference, object);
    MutexLock lock(mutex_);
    if (absent_.insert(text).second) absent_order_.push_back(text);
    if (absent_order_.size() > kMaxAbsent) {
      absent_.erase(absent_order_.front());
      absent_order_.pop_front();
    }
    return Owner::kAbsent;
  }
  const api::Object owner(*live);
  if (const auto source = FindSource(kind)) source->Observe(*live);
  OnObject(kind, owner, 0);
  return owner.deleting() && owner.has_finalizer(kForegroundDeletion) ? Owner::kWaits
                                                                      : Owner::kStays;
}

bool OwnerGc::DependentWaits(const std::string& uid) {
  MutexLock lock(mutex_);
  const GraphNode* node = graph_.Find(uid);
  if (node == nullptr) return false;
  for (const std::string& dependent : node->dependents) {
    const GraphNode* one = graph_.Find(dependent);
    if (one != nullptr && one->waits_for_dependents()) return true;
  }
  return false;
}

Status OwnerGc::KeepReferences(const GraphNode& node, const api::Object& object,
                               const std::vector<api::OwnerReference>& kept) {
  return context_.client
      .Patch(node.kind->info(), node.ns, node.name, kube::PatchType::kMerge,
             ReferencesPatch(object, ReferencesOf(object, kept)), "")
      .status();
}

StatusOr<api::Object> OwnerGc::StopBlocking(const GraphNode& node, const api::Object& object) {
  Json references = base::json::Array(object.json(), {"metadata", "ownerReferences"});
  for (Json& reference : references) reference["blockOwnerDeletion"] = false;
  ASSIGN_OR_RETURN(Json written, context_.client.Patch(
                                     node.kind->info(), node.ns, node.name, kube::PatchType::kMerge,
                                     ReferencesPatch(object, std::move(references)), ""));
  return api::Object(std::move(written));
}

Status OwnerGc::DeleteObject(const GraphNode& node, const api::Object& object,
                             std::string_view propagation) {
  // Only this version is deleted, because the object may have got another owner meanwhile.
  const Status deleted = context_.client.Delete(node.kind->info(), node.ns, node.name,
                                                {.uid = object.uid(),
                                                 .resource_version = object.resource_version(),
                                                 .propagation = std::string(propagation)});
  if (deleted.code() == StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(deleted);
  LOG_INFO("{} {} is deleted ({}), because nobody owns it any more",
           node.kind->info().group_resource(), base::Quote(object.key()), propagation);
  return base::OkStatus();
}

void OwnerGc::ReportInvalidOwner(const api::OwnerReference& reference, const api::Object& object) {
  {
    MutexLock lock(mutex_);
    if (reported_.size() > kMaxReported) reported_.clear();
    if (!reported_.insert(fmt::format("{} {}", object.uid(), reference.uid)).second) return;
  }
  context_.events.Record(object.reference(), base::EventType::kWarning, "OwnerRefInvalidNamespace",
                         fmt::format("ownerRef {} does not exist in namespace \"{}\"",
                                     ReferenceText(reference, object.ns()), object.ns()));
}

}  // namespace berth::controllers::ownergc
