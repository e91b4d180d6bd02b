// Runs the controllers of block volumes. They make, grow and delete volumes for claims
// (provisioner.h, grower.h), make snapshots of volumes (snapshots.h), clean up the attachments of
// dead nodes (stale_uses.h), lift the storage's fences of nodes that are back (fence_lifts.h), look
// after StorageClusters (clusters.h), tell which volumes name one image (shared_images.h), and
// deploy the programs on the nodes (agents.h). Only one process runs them at a time, because the
// role has a lease.
//
// The API may not serve the kinds of storage.berth.dev yet. Until it does, the absence of an object
// decides nothing.
#pragma once

#include "controllers/blockoperator/agents.h"
#include "controllers/blockoperator/backends.h"
#include "controllers/blockoperator/clusters.h"
#include "controllers/blockoperator/fence_lifts.h"
#include "controllers/blockoperator/grower.h"
#include "controllers/blockoperator/node_proofs.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/blockoperator/quiet_copies.h"
#include "controllers/blockoperator/shared_images.h"
#include "controllers/blockoperator/snapshots.h"
#include "controllers/blockoperator/stale_uses.h"

namespace berth::controllers::blockoperator {

class BlockOperator : public Controller {
 public:
  BlockOperator(const Context& context, const Options& options);
  ~BlockOperator() override { Stop(); }

  std::string_view name() const override { return "block-operator"; }
  void Start() override;
  void Stop() override;

 private:
  Backends backends_;
  NodeProofs proofs_;
  QuietCopies quiet_copies_;
  Provisioner provisioner_;
  Snapshots snapshots_;
  Grower grower_;
  StaleUses stale_uses_;
  FenceLifts fence_lifts_;
  Clusters clusters_;
  SharedImages shared_images_;
  Agents agents_;
};

}  // namespace berth::controllers::blockoperator
