// `berth up` runs a Cluster, which has all parts of a cluster of one machine: the API, the
// controllers, the node agent, and the shipped CSI driver as a process of its own.
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

class Cluster {
 public:
  // Returns when all parts have started. FAILED_PRECONDITION: another process uses the data folder.
  // Other errors are those of the parts.
  static base::StatusOr<std::unique_ptr<Cluster>> Start(const ClusterOptions& options);
  // Stops the parts. Pods keep running, as with a kubelet.
  virtual ~Cluster() = default;
};

}  // namespace berth::standalone
