// Lists the objects that a pod's spec names. The agent of its node must read them to run the pod.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace berth::apiserver {

// "secrets/NS/NAME": an object of a core resource.
std::string ReferenceTo(std::string_view resource, std::string_view ns, std::string_view name);

// The secrets, configmaps, endpoints, claims and the service account that `pod` names, each once.
// Empty for a mirror pod, because a node creates it and must not gain access to objects by it.
std::vector<std::string> FindPodReferences(const base::Json& pod);

// Whether `volume` (a PersistentVolume) names the object, one of "secrets" or "endpoints", and a
// node needs it.
bool VolumeRefersTo(const base::Json& volume, std::string_view resource, std::string_view ns,
                    std::string_view name);

}  // namespace berth::apiserver
