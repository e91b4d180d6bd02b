// The table of what the block agent of a node may do: what deploy/block-agent/rbac.yaml grants it
// in a Kubernetes cluster. block_agent_restriction.h checks the content of its writes.
#pragma once

#include <span>
#include <string_view>

#include "apiserver/access/node_rules.h"

namespace berth::apiserver {

// The namespace of the agents in the manifests, and of the Secrets that they may read.
inline constexpr std::string_view kBlockAgentNamespace = "berth-block";

std::span<const NodeRule> BlockAgentRules();

}  // namespace berth::apiserver
