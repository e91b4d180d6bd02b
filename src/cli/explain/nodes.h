// Which nodes a pod or a volume may be on. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/explain/state.h"

namespace berth::cli::explain {

bool VolumeAllows(const api::PersistentVolume& volume, const api::Node& node);

// allowedTopologies: one term must match, with all its keys.
bool ClassAllows(const api::StorageClass& storage_class, const api::Node& node);

// The nodes that the pod or the host mount asks for: the node that is named or chosen, else those
// that the pod's node selector and node affinity allow.
std::vector<const api::Node*> WantedNodes(const State& state);

// "node-a, node-b", or "none".
std::string NamesOf(const std::vector<const api::Node*>& nodes);

// True if the node's Ready condition is Unknown, because its agent has been silent for a while.
bool IsSilent(const api::Node& node);

}  // namespace berth::cli::explain
