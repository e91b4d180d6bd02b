// `berth up` runs a Standalone, which has all parts of a cluster of one machine: the API, the
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
#include "cmd/berth/local_node.h"

namespace berth::cmd {

struct UpOptions {
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

class Standalone {
 public:
  // Returns when all parts have started. FAILED_PRECONDITION: another process uses the data folder.
  // Other errors are those of the parts.
  static base::StatusOr<std::unique_ptr<Standalone>> Start(const UpOptions& options);
  // Stops the parts. Pods keep running, as with a kubelet.
  virtual ~Standalone() = default;
};

}  // namespace berth::cmd
