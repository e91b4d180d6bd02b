// What the API knows about the CSI drivers of this node: the CSINode object, and labels and an
// annotation of the Node (kubelet: nodeinfomanager).
//
//   Node annotation csi.volume.kubernetes.io/nodeid   {"driver": "node id", ...}
//   Node labels                                       the driver's topology segments
//   CSINode.spec.drivers[]                            name, nodeID, topologyKeys, allocatable.count
//
// The kubelet's annotation storage.alpha.kubernetes.io/migrated-plugins is not written: it names
// the in-tree plugins whose volumes the node takes for CSI volumes, and Berth translates none.
//
// Thread-safe; calls for different drivers may run in parallel (a conflict is read again and
// repeated).
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

  // Makes the CSINode, without drivers, if there is none. By it controllers tell a node without
  // drivers from a node whose agent never started. NOT_FOUND: there is no Node yet.
  base::Status Ensure();
  // Idempotent. INVALID_ARGUMENT: the driver reports impossible values; FAILED_PRECONDITION: a
  // topology label of the Node has another value already.
  base::Status Add(const NodeDriver& driver);
  // Removing a driver that is not listed is OK. Topology labels stay, as with the kubelet.
  base::Status Remove(const std::string& driver);
  // The names of the drivers that CSINode lists.
  base::StatusOr<std::vector<std::string>> Drivers() const;
  // Writes allocatable.count of a listed driver, because it is the only field of an entry that may
  // change.
  base::Status UpdateCount(const NodeDriver& driver);

 private:
  base::Status PatchNode(const NodeDriver& driver, bool add);
  base::Status WriteCsiNode(const NodeDriver& driver, bool add);
  base::Status CreateCsiNode(const base::Json& drivers, const api::Node& node);
  base::Status OnConflict(const std::function<base::Status()>& write) const;

  kube::Client& client_;
  const std::string node_name_;
};

}  // namespace berth::node
