// Finds the users of a volume of the block agent, by asking the API and not an informer's copy.
// Thread-safe.
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

  // Returns, as a text for people, a user of the volume: a pod that its VolumeFence names, a
  // VolumeFence without entries, or a node that still has to take it off and is not proven gone. ""
  // if there is none. FAILED_PRECONDITION: VolumeFences or NodeCleanups are not listed, because the
  // informer has not synced, or the API lacks or forbids them. Other errors come from the API.
  base::StatusOr<std::string> FindUser(const std::string& volume) const;

 private:
  kube::Client& client_;
  NodeProofs& proofs_;
  kube::Informer<api::VolumeFence>& fences_;
  kube::Informer<api::NodeCleanup>& cleanups_;
};

}  // namespace berth::controllers::blockoperator
