// Which volumes and data sources are this provisioner's in a node deployment (options.h), where
// each node has a provisioner of its own. Without a node deployment everything is.
//
// Thread-safe. What the context names is borrowed and outlives this object. A volume is out of
// reach as long as the Node is not known, because nobody may delete it by mistake; a source whose
// place is not known counts as within reach, because the driver refuses what it cannot reach.
#pragma once

#include "api/kinds/kinds.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"
#include "controllers/provisioner/options.h"

namespace berth::controllers::provisioner {

class NodeReach {
 public:
  NodeReach(const Context& context, NodeDeployment node_deployment);

  // Whether this provisioner's node reaches the volume, by its nodeAffinity, and so is to delete
  // it.
  bool ReachesVolume(const api::PersistentVolume& volume) const;
  // Whether what the claim is to be filled from is within this node's reach; true where that is not
  // known.
  bool ReachesSource(const api::PersistentVolumeClaim& claim) const;
  // Whether no other node has the driver.
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
