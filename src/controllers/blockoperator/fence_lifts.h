// Takes fences off that the storage keeps of nodes (Backend::Fence), once the node is clean.
//
//   agent: NodeCleanup of the old node written ─▶ VolumeFence ─▶ Backend::Fence ─▶ image mapped
//   old node, when it is back: takes the volume off ─▶ its entry leaves the NodeCleanup
//   here: ListFenced ─▶ NodeCleanups read ─▶ none of the node, and the Node is back ─▶ Unfence
//
// The storage's own list is the record, so a crash at any point forgets nothing. The list is read
// before the NodeCleanups. So each fence in it was made for an entry that was there before, and has
// been worked off since; exactly these fences are taken off, and none that is made meanwhile.
//
// A lost NodeCleanup proves nothing, so the Node must be there, too, without a taint that says that
// nobody hears of it: then its clients run, have learned that they are shut out, and write no more.
// A fence of a node that never returns stays, and harms nobody.
//
// The deletion of a StorageCluster lifts fences, too, because nobody looks at the storage's list
// any more when the object is gone (clusters.h).
//
// A failure is told by the event UnfenceFailed of the StorageCluster. It delays no other node, and
// is retried with a growing delay.
//
// A cluster is queued when it changes, when a Node is back, when a NodeCleanup loses an entry, and
// each check_interval.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/block_kinds.h"
#include "base/workers/keyed_workers.h"
#include "controllers/blockoperator/backends.h"
#include "controllers/blockoperator/options.h"
#include "controllers/controller.h"

namespace berth::controllers::blockoperator {

class FenceLifts {
 public:
  // `backends` is borrowed.
  FenceLifts(const Context& context, Backends& backends, const Options& options);
  ~FenceLifts() { Stop(); }

  void Start() { workers_.Start(); }
  void Stop() { workers_.Stop(); }

  struct Lifted {
    bool fences = false;                      // the back end can be opened, and fences nodes
    std::vector<std::string> kept;            // nodes whose fences stay, because they are not back
    base::Status storage = base::OkStatus();  // the last failure to list or to lift fences
  };
  // Lifts the fences of the cluster's nodes that are back and clean, and tells so by events. Errors
  // come from the API. Thread-safe.
  base::StatusOr<Lifted> LiftFences(const api::StorageCluster& cluster);

 private:
  using Outcome = base::KeyedWorkers::Outcome;

  Outcome Sync(const std::string& cluster);
  // Records the event UnfenceFailed, and tries the cluster again with a growing delay.
  Outcome ReportFailure(const api::StorageCluster& cluster, const base::Status& failed);
  // Whether the Node is there and heard of. Errors come from the API.
  base::StatusOr<bool> IsBack(const std::string& node);

  const Context context_;
  Backends& backends_;
  const std::chrono::milliseconds interval_;
  kube::Informer<api::StorageCluster>& clusters_;
  kube::Informer<api::NodeCleanup>& cleanups_;
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::blockoperator
