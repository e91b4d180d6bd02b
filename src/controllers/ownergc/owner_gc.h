// Deletes objects whose owners are gone, by ownerReferences (in Kubernetes: the garbage collector).
//
//   [owned] ─┬─ some owners are gone or wait, another stays ──────▶ references to the former off
//            ├─ no owner stays, one waits for its dependents,
//            │  and the object has dependents itself ─────────────▶ deleted, dependents first
//            └─ no owner stays otherwise ─────────────────────────▶ deleted
//
//   an object that is being deleted with finalizer
//     foregroundDeletion ── the dependents that block it are deleted ───▶ finalizer removed
//     orphan ────────────── references of its dependents are removed ───▶ finalizer removed
//
// All kinds that the API serves and lets delete are watched, custom ones included, as they come and
// go; events are not. The graph alone never decides a deletion: the object and each of its owners
// are read from the API first, by uid, and the delete applies only to the version that was read.
//
// An owner is looked for in the object's own namespace, or among cluster-wide objects; one that is
// somewhere else counts as absent, and a Warning event OwnerRefInvalidNamespace says so. A
// cluster-wide object that names an owner in a namespace is left alone, with the same event. An
// owner of a kind that the API does not serve is waited for.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/ownergc/graph.h"
#include "controllers/ownergc/source.h"

namespace berth::controllers::ownergc {

struct Options {
  // The interval at which the API is asked for the served kinds. It is also asked when a
  // CustomResourceDefinition changes.
  std::chrono::milliseconds discovery_interval = std::chrono::minutes(5);
  // After a CustomResourceDefinition's change; serving it takes a moment.
  std::chrono::milliseconds discovery_delay = std::chrono::milliseconds(500);
  // How long a kind that cannot be listed keeps everything else waiting.
  std::chrono::milliseconds sync_timeout = std::chrono::seconds(30);
};

class OwnerGc : public Controller, Source::Listener {
 public:
  explicit OwnerGc(Context context, Options options = {});
  ~OwnerGc() override;

  std::string_view name() const override { return "ownergc"; }
  void Start() override;
  void Stop() override;
  // The number of objects in the graph; for tests.
  size_t remembered();

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using SteadyTime = std::chrono::steady_clock::time_point;

  // The state of the owner that an owner reference names.
  enum class Owner { kStays, kWaits, kAbsent, kNeverAbsent };
  struct Verdict {
    std::vector<api::OwnerReference> stay, wait, absent;
    bool unresolvable = false;  // a reference that cannot be followed: the object stays
  };

  void OnObject(const KindPtr& kind, const api::Object& object, uint64_t list) override;
  void OnGone(const KindPtr& kind, const std::string& uid) override;
  void OnListed(const KindPtr& kind, uint64_t list) override;
  void QueueObjects(const Uids& uids);
  void NoteDefinitionChange(const KindPtr& kind);

  // kinds.cc
  Outcome Discover();
  void AddSource(const KindPtr& kind);
  // Whether each watched kind is listed, or could not be listed for Options::sync_timeout.
  bool Synced();
  KindPtr FindKind(std::string_view api_version, std::string_view kind);
  std::shared_ptr<Source> FindSource(const KindPtr& kind);

  // owner_gc.cc
  Outcome Sync(const std::string& key);
  Outcome OrphanDependents(const std::string& uid, const GraphNode& node);
  Outcome AwaitDependents(const std::string& uid, const GraphNode& node);
  base::Status ReleaseDependent(const std::string& uid, const std::string& owner);
  base::Status TakeFinalizerOff(const std::string& uid, const GraphNode& node,
                                std::string_view finalizer);

  // collect.cc
  Outcome Collect(const std::string& uid, const GraphNode& node);
  // Reads the object from the API. NOT_FOUND: the name belongs to no object or to another one; then
  // the object is removed from the graph.
  base::StatusOr<api::Object> ReadLive(const std::string& uid, const GraphNode& node);
  base::StatusOr<Verdict> JudgeObject(const api::Object& object, const GraphNode& node);
  base::StatusOr<Owner> JudgeOwner(const api::OwnerReference& reference, const api::Object& object,
                                   const GraphNode& node);
  base::Status KeepReferences(const GraphNode& node, const api::Object& object,
                              const std::vector<api::OwnerReference>& kept);
  // Sets blockOwnerDeletion of all references to false. Returns the object as it is after the
  // write.
  base::StatusOr<api::Object> StopBlocking(const GraphNode& node, const api::Object& object);
  base::Status DeleteObject(const GraphNode& node, const api::Object& object,
                            std::string_view propagation);
  // Whether a dependent of the object is being deleted and waits for its own dependents.
  bool DependentWaits(const std::string& uid);
  void ReportInvalidOwner(const api::OwnerReference& reference, const api::Object& object);

  const Context context_;
  const Options options_;
  base::Mutex mutex_;
  Graph graph_ ABSL_GUARDED_BY(mutex_);
  struct Watched {
    std::shared_ptr<Source> source;
    SteadyTime since;
  };
  std::map<std::string, Watched> sources_ ABSL_GUARDED_BY(mutex_);  // by "PLURAL.GROUP"
  kube::ServedKinds kinds_ ABSL_GUARDED_BY(mutex_);                 // also those not watched
  bool discovered_ ABSL_GUARDED_BY(mutex_) = false;
  // References to owners that do not exist, kept because many dependents share one. The oldest are
  // forgotten.
  std::set<std::string> absent_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> absent_order_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> reported_ ABSL_GUARDED_BY(mutex_);  // "uid owner-uid"
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::ownergc
