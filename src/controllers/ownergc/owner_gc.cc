#include "controllers/ownergc/owner_gc.h"

#include <algorithm>

#include "base/log.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::ownergc {

using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;

namespace {

// The key that stands for the discovery of kinds. It is no uid, because no uid is empty.
constexpr const char* kDiscovery = "";

}  // namespace

OwnerGc::OwnerGc(Context context, Options options)
    : context_(context),
      options_(options),
      workers_({.name = "ownergc",
                .workers = 3,
                .retry_start = milliseconds(200),
                .retry_max = std::chrono::seconds(60)},
               [this](const std::string& key) { return Sync(key); }) {}

OwnerGc::~OwnerGc() { Stop(); }

void OwnerGc::Start() {
  workers_.Add(kDiscovery);
  workers_.Start();
}

void OwnerGc::Stop() {
  // The workers stop first, because they add sources; then the sources stop.
  workers_.Stop();
  std::vector<Source*> sources;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, watched] : sources_) sources.push_back(watched.source.get());
  }
  for (Source* source : sources) source->Stop();
}

size_t OwnerGc::remembered() {
  MutexLock lock(mutex_);
  return graph_.size();
}

void OwnerGc::QueueObjects(const Uids& uids) {
  for (const std::string& uid : uids) workers_.Add(uid);
}

void OwnerGc::NoteDefinitionChange(const KindPtr& kind) {
  if (&kind->info() == &api::kinds::kCustomResourceDefinition) {
    workers_.AddAfter(kDiscovery, options_.discovery_delay);
  }
}

void OwnerGc::OnObject(const KindPtr& kind, const api::Object& object, uint64_t list) {
  Uids to_check;
  {
    MutexLock lock(mutex_);
    to_check = graph_.Put(kind, object, list);
  }
  QueueObjects(to_check);
  NoteDefinitionChange(kind);
}

void OwnerGc::OnGone(const KindPtr& kind, const std::string& uid) {
  Uids to_check;
  {
    MutexLock lock(mutex_);
    to_check = graph_.Remove(uid);
    std::erase_if(reported_, [&](const std::string& one) { return one.starts_with(uid); });
  }
  QueueObjects(to_check);
  NoteDefinitionChange(kind);
}

void OwnerGc::OnListed(const KindPtr& kind, uint64_t list) {
  Uids to_check;
  {
    MutexLock lock(mutex_);
    to_check = graph_.RemoveUnlisted(kind->info(), list);
  }
  QueueObjects(to_check);
}

OwnerGc::Outcome OwnerGc::Sync(const std::string& key) {
  if (key == kDiscovery) return Discover();
  if (!Synced()) return Outcome::After(kube::kSyncCheckInterval);
  GraphNode node;
  {
    MutexLock lock(mutex_);
    const GraphNode* found = graph_.Find(key);
    if (found == nullptr || !found->present) return Outcome::Done();
    if (!found->deleting && graph_.AllOwnersStay(*found)) return Outcome::Done();
    node = *found;
  }
  if (!node.deleting) return Collect(key, node);
  if (node.orphan) return OrphanDependents(key, node);
  if (node.foreground) return AwaitDependents(key, node);
  return Outcome::Done();
}

OwnerGc::Outcome OwnerGc::OrphanDependents(const std::string& uid, const GraphNode& node) {
  for (const std::string& dependent : node.dependents) {
    if (const Status released = ReleaseDependent(dependent, uid); !released.ok()) {
      return AfterApi(released);
    }
  }
  return AfterApi(TakeFinalizerOff(uid, node, kOrphan));
}

Status OwnerGc::ReleaseDependent(const std::string& uid, const std::string& owner) {
  GraphNode node;
  {
    MutexLock lock(mutex_);
    const GraphNode* found = graph_.Find(uid);
    if (found == nullptr || !found->present) return base::OkStatus();
    node = *found;
  }
  const StatusOr<api::Object> live = ReadLive(uid, node);
  if (live.status().code() == StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(live);
  std::vector<api::OwnerReference> kept = live->owner_references();
  const size_t before = kept.size();
  std::erase_if(kept, [&](const api::OwnerReference& one) { return one.uid == owner; });
  return kept.size() == before ? base::OkStatus() : KeepReferences(node, *live, kept);
}

OwnerGc::Outcome OwnerGc::AwaitDependents(const std::string& uid, const GraphNode& node) {
  Uids blocking;
  {
    MutexLock lock(mutex_);
    blocking = graph_.BlockingDependents(uid);
  }
  // The end of the last dependent queues this object again.
  if (!blocking.empty()) {
    QueueObjects(blocking);
    return Outcome::Done();
  }
  return AfterApi(TakeFinalizerOff(uid, node, kForegroundDeletion));
}

Status OwnerGc::TakeFinalizerOff(const std::string& uid, const GraphNode& node,
                                 std::string_view finalizer) {
  const StatusOr<api::Object> live = ReadLive(uid, node);
  if (live.status().code() == StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(live);
  if (!live->has_finalizer(finalizer)) return base::OkStatus();
  Json patch = FinalizersPatch(*live, "", finalizer);
  base::json::Set(patch, {"metadata", "resourceVersion"}, live->resource_version());
  const Status written =
      context_.client
          .Patch(node.kind->info(), node.ns, node.name, kube::PatchType::kMerge, patch, "")
          .status();
  if (written.ok()) {
    LOG_INFO("{} {} does not wait for dependents any more: finalizer {} is removed",
             node.kind->info().group_resource(), base::Quote(api::ObjectKey(node.ns, node.name)),
             finalizer);
  }
  return written;
}

}  // namespace berth::controllers::ownergc
