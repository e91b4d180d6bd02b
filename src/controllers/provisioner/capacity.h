// CSIStorageCapacity objects: which there should be, and what they say. Pure.
//
// One for each class of the driver and each topology segment: the values that some node, on which
// the driver runs, has for the driver's topology keys. The scheduler holds claims against them.
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

// The value of managed-by: "external-provisioner", with "-<node>" in a node deployment.
std::string CapacityManager(const CapacityOptions& options);

// The segments of `driver`, each once, in order. A driver without topology has one, which is empty:
// all nodes. A node that lacks a label of the driver's keys (yet) counts for nothing.
std::vector<TopologyTerm> CapacitySegments(
    const DriverInfo& driver, const std::string& node_name,
    const std::vector<std::shared_ptr<const api::Node>>& nodes,
    const std::vector<std::shared_ptr<const api::CsiNode>>& csi_nodes);

// Whether capacity is published for the class: it is the driver's, and binds late unless
// `options.immediate_binding`.
bool WantsCapacity(const api::StorageClass& storage_class, const DriverInfo& driver,
                   const CapacityOptions& options);

// INVALID_ARGUMENT for a class whose parameters are wrong.
base::StatusOr<csi::v1::GetCapacityRequest> CapacityRequest(const api::StorageClass& storage_class,
                                                            const TopologyTerm& segment,
                                                            const CapacityOptions& options);

// nodeTopology of a segment's object.
base::Json SegmentSelector(const TopologyTerm& segment);

// The object for the driver's answer, without owner.
api::CsiStorageCapacity CapacityObject(const std::string& driver, const CapacityOptions& options,
                                       const std::string& storage_class,
                                       const TopologyTerm& segment,
                                       const csi::v1::GetCapacityResponse& answer);

// What `present` lacks of `wanted` (capacity, maximumVolumeSize, ownerReferences), as merge patch;
// empty: nothing.
base::Json CapacityPatch(const api::CsiStorageCapacity& present,
                         const api::CsiStorageCapacity& wanted);

}  // namespace berth::controllers::provisioner
