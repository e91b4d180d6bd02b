// Prepares the creation of a pod's container, before the runtime creates it.
#pragma once

#include "base/ipc/result.h"
#include "cmd/berth-oci/arguments.h"
#include "cmd/berth-oci/oci.h"

namespace berth::oci {

// Makes the container's deferred volumes ready, if its pod has any. If the container uses some,
// this process is then in a mount namespace of its own, and the bundle's config.json names the
// mounts there. After a failure the caller must not run the runtime.
base::ipc::Failure PrepareContainer(const Config& config, const Arguments& arguments);

}  // namespace berth::oci
