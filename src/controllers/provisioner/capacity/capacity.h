// CSIStorageCapacity objects: which ones should exist, and their content. Pure.
//
// There is one for each class of the driver and each topology segment. A segment is the set of
// values that a node with the driver has for the driver's topology keys. The scheduler compares
// claims with these objects.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "controllers/driver_connection.h"
#include "controllers/provisioner/options.h"
#include "controllers/provisioner/topology.h"
#include "proto/csi.pb.h"

namespace berth::controllers::provisioner {

inline constexpr std::string_view kCapacityDriverLabel = "csi.storage.k8s.io/drivername";
inline constexpr std::string_view kCapacityManagedBy = "csi.storage.k8s.io/managed-by";

// The value of managed-by: "external-provisioner", with "-<node>" in a node deployment. If that is
// longer than a label may be, it is cut and has a hash, in the same way as the Go program does it.
std::string CapacityManager(const CapacityOptions& options);

// The segments of the nodes on which `driver` is registered, each once, in order. Nodes on which it
// has no topology keys share one empty segment, which means all nodes. A node is ignored while it
// lacks the label of one of the keys.
std::vector<TopologyTerm> CapacitySegments(
    const std::string& driver, const std::string& node_name,
    const std::vector<std::shared_ptr<const api::Node>>& nodes,
    const std::vector<std::shared_ptr<const api::CsiNode>>& csi_nodes);

// Whether capacity is published for the class: its provisioner is the driver, and it binds late
// unless `options.immediate_binding` is set.
bool WantsCapacity(const api::StorageClass& storage_class, const DriverInfo& driver,
                   const CapacityOptions& options);

// GetCapacity for the volumes of a class, as the Go program asks: with all of the class's
// parameters, also those that CreateVolume does not get, without a capability, and with a topology,
// which has no segments if the driver has no keys.
csi::v1::GetCapacityRequest CapacityRequest(const api::StorageClass& storage_class,
                                            const TopologyTerm& segment);

// nodeTopology of a segment's object.
base::Json SegmentSelector(const TopologyTerm& segment);

// The object for the driver's answer, without owner.
api::CsiStorageCapacity CapacityObject(const std::string& driver, const CapacityOptions& options,
                                       const std::string& storage_class,
                                       const TopologyTerm& segment,
                                       const csi::v1::GetCapacityResponse& answer);

// The merge patch that makes `present` equal to `wanted` (capacity, maximumVolumeSize,
// ownerReferences). It is empty if nothing differs.
base::Json CapacityPatch(const api::CsiStorageCapacity& present,
                         const api::CsiStorageCapacity& wanted);

}  // namespace berth::controllers::provisioner
