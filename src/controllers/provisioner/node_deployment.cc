// Decides which node's provisioner gets a claim that binds immediately (claim_provisioning.h).
#include "base/log.h"
#include "controllers/provisioner/claim_provisioning.h"
#include "controllers/provisioner/class_translation.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::Status;
using base::StatusCode;
using base::StatusOr;

bool ClaimProvisioning::HasRoom(const Claim& claim, const DriverInfo& driver,
                                const api::StorageClass& storage_class,
                                const TopologyAnswer& topology) {
  // Other errors of the claim are reported once the claim belongs to this node.
  if (!driver.Has(DriverInfo::Rpc::GET_CAPACITY) || !topology.ok()) return true;
  const StatusOr<Plan> plan = MakePlan({.options = options_,
                                        .driver = driver,
                                        .claim = claim,
                                        .claim_class = storage_class,
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

ClaimProvisioning::Outcome ClaimProvisioning::CompeteForClaim(
    const Claim& claim, const DriverInfo& driver, const api::StorageClass& storage_class) {
  if (!options_.node_deployment.immediate_binding || !IsServedBy(storage_class, driver)) {
    return Outcome::Done();
  }
  const auto now = std::chrono::steady_clock::now();
  const std::string& node = options_.node_deployment.node_name;
  // If no other node has the driver, only this one can take the claim, so it reports the errors. It
  // waits only after a try that failed.
  const bool only = reach_.IsOnlyNode(driver);
  const auto wait =
      only ? election_.WaitAfterLoss(claim.uid(), now) : election_.GetWait(claim.uid(), now);
  if (wait.count() > 0) return Outcome::After(wait);
  if (!only) {
    Claim here = claim;
    here.set_annotation(kSelectedNode, node);
    // A class that cannot be translated is reported once the claim belongs to this node.
    const api::StorageClass translated =
        TranslateForDriver(storage_class, driver).value_or(storage_class);
    const TopologyAnswer topology = FindTopology(here, driver, translated);
    // The class excludes the node, or the driver is not registered here (yet).
    const bool excluded = topology.status().code() == StatusCode::kFailedPrecondition;
    if (excluded || !reach_.ReachesSource(claim)) {
      return Outcome::After(election_.NoteLoss(claim.uid(), now));
    }
    if (!HasRoom(here, driver, translated, topology)) {
      context_.events.Record(
          claim.reference(), base::EventType::kWarning, "ProvisioningFailed",
          fmt::format("node \"{}\" has no room for {}", node, claim.requested_storage()));
      return Outcome::After(election_.NoteLoss(claim.uid(), now));
    }
  }
  const base::Json patch = {{"metadata", {{"annotations", {{std::string(kSelectedNode), node}}}}}};
  const Status taken = UpdateAt(context_.client, claims_, claim, patch).status();
  if (taken.ok()) {
    LOG_INFO("claim {} is taken for node {}", base::Quote(claim.key()), base::Quote(node));
  }
  if (taken.code() == StatusCode::kAborted) {
    return Outcome::After(election_.NoteLoss(claim.uid(), now));
  }
  return AfterApi(taken);
}

}  // namespace berth::controllers::provisioner
