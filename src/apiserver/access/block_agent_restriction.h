// Checks the content of a block agent's write, after block_agent_rules.h has allowed the request.
// An agent writes the entries of its own node alone:
//
//   VolumeFence       its own entries and its own device. It takes the entry of another node out
//                     only for an entry of its own, and only if the other Node is deleted or has
//                     the taint node.kubernetes.io/out-of-service
//   NodeCleanup       of its own node. To that of another node it only adds entries
//   StorageCluster    what its own node says in the status
//
// kube-apiserver gets the same rules from deploy/block-agent/policy.yaml. What neither can see is
// whether the pod of an entry is there, whether a deleted Node's Lease expired, and what the back
// end says: that is left to the agent (blockagent/fence_rules.h). Pure, but for `find_node`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "api/kind_info.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::apiserver {

struct BlockAgentWrite {
  std::string_view node;  // the node whose agent writes
  const api::KindInfo& info;
  std::string_view subresource;
  const base::Json* before = nullptr;  // the stored object; null: a create
  const base::Json* after = nullptr;   // the object to store; null: a delete
  // Gives the Node of that name; nullopt: there is none.
  std::function<base::StatusOr<std::optional<base::Json>>(const std::string& name)> find_node;
};

// OK, or 403 with the reason.
base::Status CheckBlockAgentWrite(const BlockAgentWrite& write);

}  // namespace berth::apiserver
