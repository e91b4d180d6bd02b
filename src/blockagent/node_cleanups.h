// The NodeCleanup objects: what the agents of nodes are to take off.
//
// An entry is known by its volume and the pod's uid; adding it again replaces it. All writes are
// made against the resourceVersion that was read, a bounded number of times. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/block_kinds.h"
#include "base/status.h"
#include "kube/client.h"

namespace berth::blockagent {

// Adds entries to the NodeCleanup of `node`, which is made if there is none. UNAVAILABLE,
// DEADLINE_EXCEEDED: unknown, to be called again. RESOURCE_EXHAUSTED: it holds too many.
base::Status AddCleanups(kube::Client& client, const std::string& node,
                         const std::vector<api::CleanupEntry>& entries);

// Removes one; with the last the object goes, too. OK where it is not there.
base::Status RemoveCleanup(kube::Client& client, const std::string& node, const std::string& volume,
                           const std::string& pod_uid);

}  // namespace berth::blockagent
