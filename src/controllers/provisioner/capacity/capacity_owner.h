// Finds the owner of CSIStorageCapacity objects. With an owner they are deleted together with the
// deployment that writes them.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "controllers/provisioner/options.h"
#include "kube/client.h"

namespace berth::controllers::provisioner {

// Reads the owner from the API, and returns it as metadata.ownerReferences. Level 0 is the pod
// itself, and each level above is the controller of the level below (`owner_level`). For a negative
// level it is the Node if `node_owns` is set, else the array is empty. NOT_FOUND: there is no such
// pod or Node, or an object on the way up has no controller. Other errors come from the API.
base::StatusOr<base::Json> ReadCapacityOwner(kube::Client& client, const CapacityOptions& options);

}  // namespace berth::controllers::provisioner
