// Checks whether the back ends of StorageClusters answer, and cleans up deleted StorageClusters.
//
//   new ── finalizer ──▶ Ready ◀──▶ Failed: the back end cannot be opened or does not answer
//                          │ deleted
//                          ▼
//   Deleting: claims are deleted, where spec.cleanup says so
//      │      each node that may have a volume of it has answered, or is proven gone
//      │      images of deleted claims are gone, or the wait for them is over
//      │      the storage's fences of nodes that are clean are lifted
//      ▼
//   finalizer off, with an event that tells what became of the volumes
//
// The nodes are those with an entry in a fence or a NodeCleanup of the cluster, which are written
// before anything is mapped, and those that wrote themselves into status.nodes. Each agent writes
// its own member there ("Cleaning", "Clean"); the operator writes "Gone" for one that is proven
// gone (node_proofs.h). The deletion calls the back end only to lift the fences that the storage
// keeps of nodes, because nobody would find them later. While such a fence of a clean node is known
// and not lifted, the cluster stays, and a person may remove the finalizer. If none is known, a
// back end that is out of reach delays the deletion by fence_patience. The fence of a node that is
// not back stays, and the event names the node.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/kinds/block_kinds.h"
#include "base/workers/keyed_workers.h"
#include "controllers/blockoperator/backends.h"
#include "controllers/blockoperator/fence_lifts.h"
#include "controllers/blockoperator/node_proofs.h"
#include "controllers/blockoperator/options.h"
#include "controllers/controller.h"

namespace berth::controllers::blockoperator {

class Clusters {
 public:
  // `backends`, `proofs` and `lifts` are borrowed.
  Clusters(const Context& context, Backends& backends, NodeProofs& proofs, FenceLifts& lifts,
           const Options& options);
  ~Clusters() { Stop(); }

  void Start() { workers_.Start(); }
  void Stop() { workers_.Stop(); }

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Cluster = api::StorageCluster;
  using Volume = api::PersistentVolume;

  Outcome Sync(const std::string& name);
  Outcome CheckCluster(const Cluster& cluster);
  base::Status CheckBackend(const Cluster& cluster);
  Outcome CleanUpCluster(const Cluster& cluster);
  base::Status DeleteClaims(const Cluster& cluster);
  // Returns the state of each node that may have a volume of the cluster: "Cleaning", "Clean" or
  // "Gone"; "" if its agent has not answered.
  base::StatusOr<std::map<std::string, std::string>> ReadNodeStates(const Cluster& cluster);
  // If the node is proven gone, writes "Gone" into status.nodes, records an event and returns true.
  base::StatusOr<bool> MarkIfGone(const Cluster& cluster, const std::string& node);
  // The volumes of deleted claims whose images must be deleted before the cluster.
  std::vector<std::string> ImagesLeft(const Cluster& cluster) const;
  // Whether less than `patience` has passed since the cluster was deleted.
  bool IsWithin(const Cluster& cluster, std::chrono::milliseconds patience) const;
  Outcome WaitDeleting(const Cluster& cluster, const std::string& message);
  Outcome EndFences(const Cluster& cluster);
  // `fences` says, for people, what the storage still has of the cluster; "": nothing.
  Outcome RemoveFinalizer(const Cluster& cluster, const std::string& fences);
  base::Status WritePhase(const Cluster& cluster, std::string_view phase,
                          const std::string& message);

  const Context context_;
  Backends& backends_;
  NodeProofs& proofs_;
  FenceLifts& lifts_;
  const Options options_;
  kube::Informer<Cluster>& clusters_;
  kube::Informer<api::PersistentVolumeClaim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::VolumeFence>& fences_;
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::blockoperator
