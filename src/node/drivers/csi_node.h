// Writes what the API knows about the CSI drivers of this node: the CSINode object, and labels and
// an annotation of the Node (kubelet: nodeinfomanager).
//
//   Node annotation csi.volume.kubernetes.io/nodeid   {"driver": "node id", ...}
//   Node labels                                       the driver's topology segments
//   CSINode.spec.drivers[]                            name, nodeID, topologyKeys, allocatable.count
//
// The kubelet's annotation storage.alpha.kubernetes.io/migrated-plugins is not written. It names
// in-tree plugins whose volumes the node mounts through CSI, and Berth translates no in-tree
// volumes.
//
// Thread-safe; calls for different drivers may run in parallel: after a conflict the object is read
// again and the write is repeated, up to 8 times. Calls block on the API.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "kube/client.h"

namespace berth::node {

struct NodeDriver {
  std::string name;
  std::string node_id;
  api::Labels topology;     // segments of NodeGetInfo.accessible_topology
  int64_t max_volumes = 0;  // 0: no limit
};

class CsiNodes {
 public:
  // `client` outlives this.
  CsiNodes(kube::Client& client, std::string node_name)
      : client_(client), node_name_(std::move(node_name)) {}

  // Creates the CSINode, without drivers, if it is missing. With it, controllers can tell a node
  // without drivers from a node whose agent has never started. NOT_FOUND: there is no Node yet.
  base::Status EnsureCsiNode();
  // Writes the driver into the Node and the CSINode. Idempotent. INVALID_ARGUMENT: the driver has
  // no node id, or a negative limit; FAILED_PRECONDITION: a topology label of the Node already has
  // another value; other errors come from the API.
  base::Status AddDriver(const NodeDriver& driver);
  // Removes the driver from CSINode and the Node's annotation. OK if it is not listed. Topology
  // labels stay, as with the kubelet.
  base::Status RemoveDriver(const std::string& driver);
  // Reads the names of the drivers that CSINode lists; empty if there is no CSINode.
  base::StatusOr<std::vector<std::string>> ReadDrivers() const;
  // Writes allocatable.count of a listed driver; the API allows no change of the other fields of an
  // entry. Does nothing if the driver is not listed. INVALID_ARGUMENT: the limit is negative.
  base::Status UpdateCount(const NodeDriver& driver);

 private:
  base::Status PatchNode(const NodeDriver& driver, bool add);
  base::Status WriteCsiNode(const NodeDriver& driver, bool add);
  base::Status CreateCsiNode(const base::Json& drivers, const api::Node& node);
  base::Status RetryOnConflict(const std::function<base::Status()>& write) const;

  kube::Client& client_;
  const std::string node_name_;
};

}  // namespace berth::node
