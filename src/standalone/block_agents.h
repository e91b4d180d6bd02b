// What `berth up` gives the block agents' DaemonSets of its cluster (controllers/blockoperator):
// their options, and the kubeconfig with which the agent of this node reaches the API.
#pragma once

#include <string>

#include "base/status.h"
#include "controllers/blockoperator/options.h"

namespace berth::standalone {

struct BlockAgentPods {
  std::string data_folder;
  std::string node_name;
  std::string volume_plugin_folder;
  std::string image;  // of the pods; empty: there are no DaemonSets
};

controllers::blockoperator::AgentOptions MakeBlockAgentOptions(const BlockAgentPods& pods);

// Writes <data>/block-agent.kubeconfig unless it has that content. A pod with it reaches the API by
// the socket below the folder where it has the machine's file system, and acts as the block agent
// of this node. If there is no room, the reserve of the data folder is given up for it. After a
// failure the file has its old content or the new one.
base::Status WriteBlockAgentKubeconfig(const BlockAgentPods& pods);

}  // namespace berth::standalone
