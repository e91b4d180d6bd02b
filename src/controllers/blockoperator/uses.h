// Finds the users of a volume of the block agent; asks the API itself. Thread-safe.
#pragma once

#include <string>

#include "api/kinds/block_kinds.h"
#include "base/status.h"
#include "controllers/blockoperator/node_proofs.h"
#include "controllers/controller.h"

namespace berth::controllers::blockoperator {

class Uses {
 public:
  // `proofs` is borrowed.
  Uses(const Context& context, NodeProofs& proofs)
      : client_(context.client),
        proofs_(proofs),
        fences_(context.informers.OfOptional<api::VolumeFence>()),
        cleanups_(context.informers.OfOptional<api::NodeCleanup>()) {}

  // "" if no pod may use the volume, and no node that may still exist has to detach it; else the
  // user, as a text for people.
  // FAILED_PRECONDITION: the API does not serve the kinds that show the users.
  base::StatusOr<std::string> Of(const std::string& volume) const;

 private:
  kube::Client& client_;
  NodeProofs& proofs_;
  kube::Informer<api::VolumeFence>& fences_;
  kube::Informer<api::NodeCleanup>& cleanups_;
};

}  // namespace berth::controllers::blockoperator
