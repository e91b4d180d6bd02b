// Whether a claim may be filled from a source in another namespace: the owner of the source allows
// it with a ReferenceGrant of the Gateway API (gateway.networking.k8s.io/v1beta1) in the namespace
// of the source. The kind comes from a CustomResourceDefinition that a cluster may lack.
//
// The rules and the words of the errors are those of the Go provisioner with the alpha gate
// CrossNamespaceVolumeDataSource (KEP 3294).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "kube/client.h"

namespace berth::controllers::provisioner {

// A permission for objects of some kinds and namespaces (from) to name objects of its own namespace
// (to).
class ReferenceGrant : public api::Object {
 public:
  static const api::KindInfo kInfo;
  using api::Object::Object;

  // Whether it allows `claim` to name its source.
  bool Allows(const api::PersistentVolumeClaim& claim) const;
};

// Pure. FAILED_PRECONDITION: none of `grants`, which are those of the source's namespace, allows
// the claim to name its source.
base::Status CheckGranted(const api::PersistentVolumeClaim& claim,
                          std::span<const ReferenceGrant> grants);

// The same, with the grants that the API has now. A cluster without the kind has none. With another
// code they could not be read.
base::Status CheckGranted(const api::PersistentVolumeClaim& claim, kube::Client& client);

// The grants of namespace `ns` that the API has now, 10,000 at most. NOT_FOUND: the cluster lacks
// the kind, so it grants nothing.
base::StatusOr<std::vector<ReferenceGrant>> ListGrants(const std::string& ns, kube::Client& client);

}  // namespace berth::controllers::provisioner
