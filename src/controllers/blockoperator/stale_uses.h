// Finds attachments of nodes that are gone. It records in the node's NodeCleanup what the node must
// take off if it returns. Then it removes the attachment from the fence, once it is proven that
// nobody on that node writes any more.
//
//   a VolumeFence with an entry of a node that has no object, or that is out of service
//     ── the entry written into the NodeCleanup of that node ──▶ [remembered]
//     ── its pod is gone, and the node is proven gone (node_proofs.h), and, unless the taint
//        out-of-service is the proof, the back end has no lock of the image
//     ── NodeCleanup written once more ──▶ the entry leaves the fence, with an event
//
// If the back end fences nodes, no silence and no lock is waited for: whoever maps the image next
// has the storage fence each node first whose NodeCleanup names the volume, and does so while the
// VolumeFence names its own pod, so that no rightful use is hit. Then an entry of a node that is
// only unreachable (node.kubernetes.io/unreachable) goes, too, once its pod is gone, or is being
// deleted and had its time to end. A refused request for such a volume wakes this queue at once.
//
// The NodeCleanup is written before the fence, and each change of an object carries the
// resourceVersion that was read. So a crash between the two leaves one entry too many, and never
// one too few. The NodeCleanup is written once more just before the fence. So a program that
// removes the entry at that moment, because the fence still lists the attachment, gets a conflict.
//
// A fence is queued when it changes, when one of its Nodes appears, is deleted or gets or loses the
// taint, and by the scan. A NodeCleanup is queued when it changes, by the same events of its Node,
// and by the scan.
//
// A NodeCleanup belongs to the agent of its node, which removes the entries that are done or do not
// apply. For a node that has no Node object and is proven gone, the operator removes the entries
// whose volume and fence are gone, and whose image or StorageCluster is gone. The operator deletes
// a NodeCleanup without entries if its Node exists or is proven gone, and if status.entries is
// empty.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/block_kinds.h"
#include "base/workers/keyed_workers.h"
#include "controllers/blockoperator/backends.h"
#include "controllers/blockoperator/node_proofs.h"
#include "controllers/blockoperator/options.h"
#include "controllers/controller.h"

namespace berth::controllers::blockoperator {

class StaleUses {
 public:
  // `backends` and `proofs` are borrowed.
  StaleUses(const Context& context, Backends& backends, NodeProofs& proofs, const Options& options);
  ~StaleUses() { Stop(); }

  void Start();
  void Stop();

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Fence = api::VolumeFence;
  using Cleanup = api::NodeCleanup;

  Outcome SyncFence(const std::string& name);
  // Returns the proof as a text for people. FAILED_PRECONDITION says what is missing.
  base::StatusOr<std::string> ProveUnused(const api::CleanupEntry& entry);
  base::Status ProvePodGone(const api::FenceEntry& entry);
  // As ProvePodGone; a pod that is being deleted, and had its time to end, is proven gone, too.
  base::Status ProvePodEnded(const api::FenceEntry& entry);
  base::StatusOr<std::string> ProveFenced(const api::CleanupEntry& entry);
  // ProveUnused for a back end that fences nodes.
  base::StatusOr<std::string> ProveFenceable(const api::FenceEntry& entry);
  bool FencesNodes(const std::string& cluster);
  // Why the entry may be stale, for people: "the Node was deleted". "": its node is there, or an
  // answer of the API is waited for. ABORTED: the informer's copy is late.
  base::StatusOr<std::string> FindStaleness(const api::FenceEntry& entry);
  // Writes `entries` into the NodeCleanup of `node`, and creates it if it is missing. OK: the
  // NodeCleanup has these entries now.
  base::Status WriteCleanup(const std::string& node, const std::vector<api::CleanupEntry>& entries);
  // Writes `rest` into the fence, or deletes the fence if `rest` is empty.
  base::Status WriteFence(const Fence& fence, const std::vector<api::FenceEntry>& rest);

  Outcome SyncCleanup(const std::string& node);
  Outcome DeleteEmpty(const Cleanup& cleanup);
  // Whether the entry's volume and fence are gone, and its image or its StorageCluster.
  base::StatusOr<bool> IsObsolete(const api::CleanupEntry& entry);

  Outcome Scan();

  const Context context_;
  Backends& backends_;
  NodeProofs& proofs_;
  const Options options_;
  kube::Informer<api::Node>& nodes_;
  kube::Informer<api::PersistentVolume>& volumes_;
  kube::Informer<Fence>& fences_;
  kube::Informer<Cleanup>& cleanups_;
  base::KeyedWorkers fence_workers_;
  base::KeyedWorkers cleanup_workers_;
  base::KeyedWorkers scan_workers_;
};

}  // namespace berth::controllers::blockoperator
