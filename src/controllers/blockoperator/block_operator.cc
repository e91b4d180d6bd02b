#include "controllers/blockoperator/block_operator.h"

namespace berth::controllers::blockoperator {

BlockOperator::BlockOperator(const Context& context, const Options& options)
    : backends_(context.informers.OfOptional<api::StorageCluster>(), options.open_backend),
      proofs_(context.client, options.node_silence),
      quiet_copies_(context, proofs_),
      provisioner_(context, backends_, proofs_, quiet_copies_, options),
      snapshots_(context, backends_, quiet_copies_, options),
      grower_(context, backends_, options),
      stale_uses_(context, backends_, proofs_, options),
      fence_lifts_(context, backends_, options),
      clusters_(context, backends_, proofs_, fence_lifts_, options),
      shared_images_(context, backends_, options),
      agents_(context, options) {}

void BlockOperator::Start() {
  provisioner_.Start();
  snapshots_.Start();
  grower_.Start();
  stale_uses_.Start();
  fence_lifts_.Start();
  clusters_.Start();
  shared_images_.Start();
  agents_.Start();
}

void BlockOperator::Stop() {
  agents_.Stop();
  shared_images_.Stop();
  clusters_.Stop();
  fence_lifts_.Stop();
  stale_uses_.Stop();
  grower_.Stop();
  snapshots_.Stop();
  provisioner_.Stop();
}

}  // namespace berth::controllers::blockoperator
