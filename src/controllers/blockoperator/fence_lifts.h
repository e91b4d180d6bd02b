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
// What the storage listed last is in status.fenced of the StorageCluster, for a time when the
// storage cannot be asked: its Secret or its program is missing, its settings are wrong, or it does
// not answer. If a node in it is clean, and its fence cannot be lifted, the condition FencesLeft
// and an event of the StorageCluster say which clients of which nodes are fenced, and how an
// administrator takes that off by hand. The record decides nothing else: no fence is lifted or
// kept because of it.
//
// A failure is told by the event UnfenceFailed of the StorageCluster. It delays no other node, and
// is retried with a growing delay, also if the back end cannot be opened, as long as its kind keeps
// fences (block::KeepsFences).
//
// A cluster is queued when it changes, when a Node is back, when a NodeCleanup changes, when the
// VolumeFence of a volume changes that a NodeCleanup names, since its next user has a node fenced,
// and each check_interval.
#pragma once

#include <map>
#include <set>
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

  // The clients of each node that are fenced, as Backend::ListFenced gives them.
  using FencedNodes = std::map<std::string, std::vector<std::string>>;
  struct Lifted {
    // The back end fences nodes. Of one that cannot be opened, its kind does.
    bool fences = false;
    FencedNodes kept;  // of nodes that are not back, so that their fences stay
    FencedNodes left;  // of nodes that are clean, and whose fences could not be lifted
    base::Status storage = base::OkStatus();  // the last failure to list or to lift fences
  };
  // Says, for people, which clients of which nodes are fenced, and how to take that off by hand.
  static std::string Describe(const api::StorageCluster& cluster, const FencedNodes& nodes);
  // Lifts the fences of the cluster's nodes that are back and clean, tells so by events, and writes
  // the status that the file comment names. If the storage could not be asked, `kept` and `left`
  // are what it listed last. Errors come from the API; CANCELLED: this role is to end. Thread-safe.
  base::StatusOr<Lifted> LiftFences(const api::StorageCluster& cluster);

 private:
  using Outcome = base::KeyedWorkers::Outcome;

  Outcome Sync(const std::string& cluster);
  // Records the event UnfenceFailed, and tries the cluster again with a growing delay.
  Outcome ReportFailure(const api::StorageCluster& cluster, const base::Status& failed);
  // Lists the fences that the storage has. If it cannot be asked, `lifted.storage` says why, and
  // the result is what it listed last.
  static FencedNodes ListFences(const api::StorageCluster& cluster,
                                const base::StatusOr<Backends::Ptr>& backend, Lifted& lifted);
  // The nodes with entries in NodeCleanups. Errors come from the API.
  base::StatusOr<std::set<std::string>> FindOwingNodes();
  // Writes status.fenced and the condition FencesLeft if they change, with an event for the latter.
  base::Status WriteStatus(const api::StorageCluster& cluster, const Lifted& lifted);
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
