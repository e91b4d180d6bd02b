// Whether a volume may be used on a node, by the PersistentVolume's nodeAffinity. The scheduler
// looks at it, too; a pod that names its node by itself passes the scheduler by. Pure.
#pragma once

#include "api/kinds/kinds.h"
#include "base/status.h"

namespace berth::node {

// FAILED_PRECONDITION: the node is elsewhere; the message says where the volume is.
base::Status CheckNodeAffinity(const api::PersistentVolume& volume, const api::Node& node);

}  // namespace berth::node
