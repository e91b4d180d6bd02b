// `berth up` runs a Cluster, which has all parts of a cluster of one machine: the API, the
// controllers, the node agent, and the shipped CSI driver as a process of its own.
//
//   <data>/                  as local_node.h has it, and
//     api.sock  kubeconfig   socket of the API, and an administrator's kubeconfig
//     node.kubeconfig        the kubeconfig of the node agent
//     block-agent.kubeconfig that of the block agent's pod, if `berth up` makes one
//     api/objects.db         the store        api/pki/  certificates
//     api/tokens.json        users' tokens, hashed
//     api/revoked.json       revoked certificates
//     run/nodes/NAME.sock    logs and exec of each node on this machine
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "standalone/local_node.h"

namespace berth::standalone {

struct ClusterOptions {
  LocalNodeOptions node;
  uint16_t port = 6443;
  std::vector<std::string> csi_drivers;  // sockets of further drivers whose controllers are to run
  std::string block_agent_image;         // of the block agents' DaemonSets; empty: none are made
};

// <data>/api/objects.db
std::string DatabasePath(const std::string& data_folder);
// <data>/api/tokens.json
std::string TokenPath(const std::string& data_folder);
// <data>/api/revoked.json
std::string RevocationPath(const std::string& data_folder);

class Cluster {
 public:
  // Returns when all parts have started. FAILED_PRECONDITION: another process uses the data folder.
  // Other errors are those of the parts.
  static base::StatusOr<std::unique_ptr<Cluster>> Start(const ClusterOptions& options);
  // Stops the parts. Pods keep running, as with a kubelet.
  virtual ~Cluster() = default;
};

}  // namespace berth::standalone
