// The table of what the block agent of a node may do: what deploy/block-agent/rbac.yaml grants it
// in a Kubernetes cluster. block_agent_restriction.h checks the content of its writes.
#pragma once

#include <span>

#include "apiserver/access/node_rules.h"

namespace berth::apiserver {

std::span<const NodeRule> BlockAgentRules();

}  // namespace berth::apiserver
