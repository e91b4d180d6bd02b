// What is done before the runtime creates a container of a pod.
#pragma once

#include "base/ipc/result.h"
#include "cmd/berth-oci/arguments.h"
#include "cmd/berth-oci/oci.h"

namespace berth::oci {

// Makes the container's deferred volumes ready, if its pod has any: then this process is in a mount
// namespace of its own, and the bundle's config.json names what is there. On failure the runtime is
// not to be run.
base::ipc::Failure Prepare(const Config& config, const Arguments& arguments);

}  // namespace berth::oci
