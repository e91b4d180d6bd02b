#include "apiserver/access/block_agent_rules.h"

namespace berth::apiserver {

std::span<const NodeRule> BlockAgentRules() {
  constexpr std::string_view kBlock = "storage.berth.dev";
  static const std::vector<NodeRule> rules = {
      {"", "persistentvolumes", "", {"get", "list", "watch"}},
      {"", "persistentvolumeclaims", "", {"get"}},
      // Whether the user that a fence names is still there.
      {"", "nodes", "", {"get"}},
      {"", "pods", "", {"get", "list"}},
      {"coordination.k8s.io", "leases", "", {"get"}},
      {"", "events", "", {"create", "patch"}},
      // The key of a storage that the node has to do with.
      {"", "secrets", "", {"get"}, NodeRule::Limit::kOfCluster, kBlockAgentNamespace},
      {kBlock, "volumefences", "", {"get", "list", "watch", "create", "update", "delete"}},
      {kBlock, "volumefences", "status", {"update"}},
      {kBlock, "nodecleanups", "", {"get", "list", "watch", "create", "update", "delete"}},
      {kBlock, "nodecleanups", "status", {"patch"}},
      {kBlock, "storageclusters", "", {"get", "list", "watch"}},
      {kBlock, "storageclusters", "status", {"patch"}},
  };
  return rules;
}

}  // namespace berth::apiserver
