// The claims that the volumes of a pod use. Pure.
#pragma once

#include <string>

#include "api/kinds/kinds.h"

namespace berth::api {

// Returns the name of the claim, in the pod's namespace, that the pod's volume uses. Kubernetes
// makes that of an ephemeral volume from the volume's template, as "POD-VOLUME". "": it uses none.
std::string FindClaimName(const Pod& pod, const PodVolume& volume);

}  // namespace berth::api
