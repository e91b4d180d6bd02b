// Makes the CRI security context of a container from the pod's securityContext and the container's
// own, which wins.
#pragma once

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "rpc/cri_client.h"

namespace berth::node {

// FAILED_PRECONDITION: runAsNonRoot is set, and the container would run as root or its user is not
// known.
base::StatusOr<rpc::cri::LinuxContainerSecurityContext> MakeContainerSecurity(
    const api::Pod& pod, const api::Container& container, const rpc::cri::Image& image);

}  // namespace berth::node
