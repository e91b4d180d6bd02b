// Which volumes and data sources this provisioner handles in a node deployment (options.h), where
// each node has a provisioner of its own. Without a node deployment it handles all.
//
// Thread-safe. What the context names is borrowed and outlives this object. A volume counts as out
// of reach while the Node is not known, because it must not be deleted by mistake. A source counts
// as within reach while its place is not known, because the driver refuses what it cannot reach.
#pragma once

#include "api/kinds/kinds.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"
#include "controllers/provisioner/options.h"

namespace berth::controllers::provisioner {

class NodeReach {
 public:
  NodeReach(const Context& context, NodeDeployment node_deployment);

  // Whether this provisioner's node reaches the volume by the volume's nodeAffinity, so that this
  // provisioner deletes it.
  bool ReachesVolume(const api::PersistentVolume& volume) const;
  // Whether the claim's data source is within this node's reach; true if that is not known.
  bool ReachesSource(const api::PersistentVolumeClaim& claim) const;
  // Whether no other node has the driver; false if that is not known.
  bool IsOnlyNode(const DriverInfo& driver) const;

 private:
  kube::Client& client_;
  const NodeDeployment node_deployment_;
  kube::Informer<api::PersistentVolumeClaim>& claims_;
  kube::Informer<api::PersistentVolume>& volumes_;
  kube::Informer<api::Node>& nodes_;
  kube::Informer<api::CsiNode>& csi_nodes_;
};

}  // namespace berth::controllers::provisioner
