// Edits the NodeCleanup objects, which name the volumes that the agents of nodes must take off.
//
// Volume and use (FenceEntry::IsSameUse) identify an entry. An entry that is there stays as it is,
// because an agent may not change what another node has to do. Each write carries the
// resourceVersion that was read, and is tried a bounded number of times. ABORTED: others wrote the
// object at every try. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/block_kinds.h"
#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "kube/client.h"

namespace berth::blockagent {

// Adds entries to the NodeCleanup of `node`, and creates it if there is none. UNAVAILABLE,
// DEADLINE_EXCEEDED: the outcome is unknown; call again. RESOURCE_EXHAUSTED: it would have more
// than 4096 entries.
base::Status AddCleanups(kube::Client& client, const std::string& node,
                         const std::vector<api::CleanupEntry>& entries);

// Removes one entry, and with the last entry the object. OK if there is no such entry.
base::Status RemoveCleanup(kube::Client& client, const api::NodeName& node,
                           const api::CleanupEntry& entry);

// Whether the NodeCleanup of `node` has an entry for the volume and the pod now. False also if the
// API does not serve NodeCleanups.
base::StatusOr<bool> HasCleanup(kube::Client& client, const api::NodeName& node,
                                const api::VolumeName& volume, const api::PodUid& pod);

// The nodes whose NodeCleanup has an entry for the volume now; without `readers`, only entries of
// pods that may write count.
base::StatusOr<std::vector<api::NodeName>> FindOwingNodes(kube::Client& client,
                                                          const api::VolumeName& volume,
                                                          bool readers);

}  // namespace berth::blockagent
