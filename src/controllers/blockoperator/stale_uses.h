// Attachments of nodes that are gone: what they left goes into the NodeCleanup of the node, and the
// fence is freed where it is proven that nobody writes any more.
//
//   a VolumeFence with an entry of a node that has no object, or that is out of service
//     ── the entry written into the NodeCleanup of that node ──▶ [remembered]
//     ── its pod is gone, and the node is proven gone (node_proofs.h), and, unless a person said so
//        by the taint, the back end has no lock of the image or shuts the node out
//     ── NodeCleanup written once more ──▶ the entry leaves the fence, with an event
//
// The NodeCleanup is written before the fence, each against the version that was read: a crash
// leaves an entry too many. It is written once more just before the fence, so that a program that
// prunes it at that moment, because the fence still lists the use, gets a conflict.
//
// A fence is queued by its own changes, the end of a Node, the taint, and the scan of all fences.
//
// A NodeCleanup belongs to the agent of its node, which removes entries that are done or do not
// apply. The operator prunes it only if no agent is there: for a node that is proven gone, it
// removes entries whose volume, fence and image are gone. An empty NodeCleanup is deleted if its
// Node exists, or is proven gone.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/block_kinds.h"
#include "base/keyed_workers.h"
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
  base::StatusOr<std::string> ProveShutOut(const api::CleanupEntry& entry);
  // Writes the entries of one node. OK: its NodeCleanup has them as they are here.
  base::Status Remember(const std::string& node, const std::vector<api::CleanupEntry>& entries);
  base::Status FreeFence(const Fence& fence, const std::vector<api::FenceEntry>& rest);

  Outcome SyncCleanup(const std::string& node);
  Outcome DeleteEmpty(const Cleanup& cleanup);
  // Whether there is nothing left that the entry is about.
  base::StatusOr<bool> IsMoot(const api::CleanupEntry& entry);

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
