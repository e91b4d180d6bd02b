// Says on which nodes a pod may run, and which nodes can use a volume. The functions are pure.
#pragma once

#include <string>
#include <vector>

#include "cli/explain/state.h"

namespace berth::cli::explain {

// Whether the volume's spec.nodeAffinity allows the node.
bool VolumeAllows(const api::PersistentVolume& volume, const api::Node& node);

// Whether the class's allowedTopologies allow the node: one term must match, with all its keys.
bool ClassAllows(const api::StorageClass& storage_class, const api::Node& node);

// Returns the nodes that the pod or the host mount asks for: the node that is named or chosen;
// without one, the nodes that the pod's node selector and node affinity allow, or all nodes if
// there is no pod. The pointers point into `state`.
std::vector<const api::Node*> FindWantedNodes(const State& state);

// "node-a, node-b", or "none".
std::string JoinNodeNames(const std::vector<const api::Node*>& nodes);

// True if the node's Ready condition is Unknown, because its agent has been silent for a while.
bool IsSilent(const api::Node& node);

}  // namespace berth::cli::explain
