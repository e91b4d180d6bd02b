// The objects that a pod's spec names, which its node's agent has to read to run it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace berth::apiserver {

// "secrets/NS/NAME": an object of a core resource.
std::string ReferenceTo(std::string_view resource, std::string_view ns, std::string_view name);

// The secrets, configmaps, endpoints, claims and the service account that `pod` names, each once.
// Nothing for a mirror pod: a node made it, and must not get at objects by it.
std::vector<std::string> PodReferences(const base::Json& pod);

// Whether `volume` (a PersistentVolume) names the object, one of "secrets" or "endpoints", for what
// is done on a node.
bool VolumeRefersTo(const base::Json& volume, std::string_view resource, std::string_view ns,
                    std::string_view name);

}  // namespace berth::apiserver
