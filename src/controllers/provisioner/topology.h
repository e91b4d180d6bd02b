// Where a volume may be: the accessibility requirements of CreateVolume, and which nodes can use
// the volume according to the answer. Pure. The choices are those of Kubernetes'
// external-provisioner, so that volumes of a StatefulSet spread over zones in the same way.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/json.h"
#include "base/status.h"
#include "proto/csi.pb.h"

namespace berth::controllers::provisioner {

// The segments of one topology, by key.
using TopologyTerm = std::map<std::string, std::string>;

// The values of the node's labels with these keys; nullopt if one of them is missing.
std::optional<TopologyTerm> TermOf(const api::Node& node, const std::vector<std::string>& keys);

struct TopologyQuestion {
  std::string driver;
  std::string claim_name;
  std::string selected_node;            // "": the class binds immediately
  const base::Json* allowed = nullptr;  // StorageClass.allowedTopologies
  bool strict = false;                  // only the selected node's topology
  bool immediate_topology = true;       // without allowed topologies and node: any node's
  std::vector<std::shared_ptr<const api::Node>> nodes;
  std::vector<std::shared_ptr<const api::CsiNode>> csi_nodes;
};

// The topologies in which CreateVolume may make the volume, and those that it should prefer.
// nullopt: the volume may be anywhere. NOT_FOUND: the selected node or its CSINode does not exist
// any more, so the scheduler must choose another node. FAILED_PRECONDITION: the driver's topology
// is not known (yet), or the class excludes the node. INVALID_ARGUMENT: allowedTopologies of the
// class has too many combinations.
base::StatusOr<std::optional<csi::v1::TopologyRequirement>> RequireTopology(
    const TopologyQuestion& question);

// PersistentVolume.spec.nodeAffinity for the topologies that CreateVolume returned; null if none of
// them has a segment.
base::Json NodeAffinity(const google::protobuf::RepeatedPtrField<csi::v1::Topology>& topologies);

// How far the preferred list of an Immediate claim is rotated, before the modulo: FNV-1 of the
// name, plus the number of a StatefulSet's claim.
uint32_t SpreadIndex(std::string_view claim_name);

}  // namespace berth::controllers::provisioner
