// Creates the objects that every cluster has from its start.
#pragma once

#include "base/clock.h"
#include "store/store.h"

namespace berth::apiserver {

// Creates the namespaces default, kube-system, kube-public and kube-node-lease, and the service
// account default/default, if they are missing. Blocks on the store, whose errors it returns.
base::Status CreateBuiltInObjects(store::Store& store, const base::Clock& clock);

}  // namespace berth::apiserver
