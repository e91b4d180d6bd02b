// Who owns CSIStorageCapacity objects, so that they are deleted with the deployment that writes
// them.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "controllers/provisioner/options.h"
#include "kube/client.h"

namespace berth::controllers::provisioner {

// metadata.ownerReferences for `options`: the pod, or what controls it, `owner_level` steps up; for
// a negative level the Node, or an empty array. NOT_FOUND: there is no such pod or Node, or an
// object on the way up has no controller.
base::StatusOr<base::Json> CapacityOwner(kube::Client& client, const CapacityOptions& options);

}  // namespace berth::controllers::provisioner
