// One provisioner a node: which claims and volumes are this node's (provisioner.h).
#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/names.h"
#include "controllers/provisioner/provisioner.h"
#include "controllers/snapshot_names.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::Status;
using base::StatusCode;
using base::StatusOr;

bool Provisioner::IsOurNodes(const Volume& volume) const {
  if (!options_.node_deployment.enabled()) return true;
  const auto node = nodes_.Get(options_.node_deployment.node_name);
  return node != nullptr && VolumeReachableFrom(volume, *node);
}

bool Provisioner::IsAlone(const DriverInfo& driver) const {
  const auto nodes = csi_nodes_.List();
  return std::none_of(nodes.begin(), nodes.end(), [&](const auto& node) {
    return node->name() != options_.node_deployment.node_name &&
           node->driver(driver.name).has_value();
  });
}

bool Provisioner::ReachesSource(const Claim& claim) const {
  if (const std::string name = CloneSourceName(claim); !name.empty()) {
    const auto source = claims_.Get(claim.ns(), name);
    const auto volume = source == nullptr ? nullptr : volumes_.Get(source->volume_name());
    return volume == nullptr || IsOurNodes(*volume);
  }
  const auto content = SnapshotSourceContent(context_.client, claim);
  if (!content.has_value()) return true;
  const std::string node = content->label(kManagedByNode);
  return node.empty() || node == options_.node_deployment.node_name;
}

bool Provisioner::HasRoom(const Claim& claim, const DriverInfo& driver,
                          const api::StorageClass& storage_class, const TopologyAnswer& topology) {
  // What is wrong beyond room is said when the claim is this node's.
  if (!driver.Has(DriverInfo::Rpc::GET_CAPACITY) || !topology.ok()) return true;
  const StatusOr<Plan> plan = MakePlan({.options = options_,
                                        .driver = driver,
                                        .claim = claim,
                                        .storage_class = storage_class,
                                        .topology = *topology,
                                        .source = std::nullopt,
                                        .mutable_parameters = {}});
  if (!plan.ok()) return true;
  csi::v1::GetCapacityRequest request;
  *request.mutable_volume_capabilities() = plan->request.volume_capabilities();
  *request.mutable_parameters() = plan->request.parameters();
  std::vector<std::optional<csi::v1::Topology>> places = {std::nullopt};
  if (topology->has_value() && !(*topology)->requisite().empty()) {
    places.assign((*topology)->requisite().begin(), (*topology)->requisite().end());
  }
  for (const auto& place : places) {
    request.clear_accessible_topology();
    if (place.has_value()) *request.mutable_accessible_topology() = *place;
    const auto capacity = driver_.Call(&rpc::CsiClient::GetCapacity, request, options_.timeout);
    if (!capacity.ok()) return true;
    if (plan->request.capacity_range().required_bytes() <= capacity->available_capacity()) {
      return true;
    }
  }
  return false;
}

Provisioner::Outcome Provisioner::CompeteFor(const Claim& claim, const DriverInfo& driver,
                                             const api::StorageClass& storage_class) {
  if (!options_.node_deployment.immediate_binding || storage_class.provisioner() != driver.name) {
    return Outcome::Done();
  }
  const auto now = std::chrono::steady_clock::now();
  const std::string& node = options_.node_deployment.node_name;
  // Nobody else could have the claim: whatever is wrong with it is to be said here.
  if (!IsAlone(driver)) {
    if (const auto wait = election_.Wait(claim.uid(), now); wait.count() > 0) {
      return Outcome::After(wait);
    }
    Claim here = claim;
    here.set_annotation(kSelectedNode, node);
    const TopologyAnswer topology = Topology(here, driver, storage_class);
    // The class excludes the node, or the driver is not registered here (yet).
    const bool excluded = topology.status().code() == StatusCode::kFailedPrecondition;
    if (excluded || !ReachesSource(claim)) {
      return Outcome::After(election_.Lost(claim.uid(), now));
    }
    if (!HasRoom(here, driver, storage_class, topology)) {
      context_.events.Record(
          claim.reference(), base::EventType::kWarning, "ProvisioningFailed",
          fmt::format("node \"{}\" has no room for {}", node, claim.requested_storage()));
      return Outcome::After(election_.Lost(claim.uid(), now));
    }
  }
  // With the finalizer, which is due next: nothing was asked for yet, and this process knows it.
  base::Json patch = {{"metadata", {{"annotations", {{std::string(kSelectedNode), node}}}}}};
  patch["metadata"].update(FinalizersPatch(claim, kProvisioningFinalizer, "")["metadata"]);
  const Status taken = UpdateAt(context_.client, claims_, claim, std::move(patch)).status();
  if (taken.ok() && !claim.has_finalizer(kProvisioningFinalizer) &&
      !LastAttempt(claim.uid()).has_value()) {
    SetAttempt(claim.uid(), {});
  }
  if (taken.code() == StatusCode::kAborted) {
    return Outcome::After(election_.Lost(claim.uid(), now));
  }
  return AfterApi(taken);
}

}  // namespace berth::controllers::provisioner
