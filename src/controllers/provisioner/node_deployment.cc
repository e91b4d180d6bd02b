// One provisioner a node: which claims and volumes are this node's (provisioner.h).
#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/names.h"
#include "controllers/provisioner/provisioner.h"
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

bool Provisioner::HasRoom(const Claim& claim, const DriverInfo& driver,
                          const api::StorageClass& storage_class) {
  if (!driver.Has(DriverInfo::Rpc::GET_CAPACITY)) return true;
  Claim here = claim;
  here.set_annotation(kSelectedNode, options_.node_deployment.node_name);
  const auto topology = Topology(here, driver, storage_class);
  // What is wrong beyond room is said when the claim is this node's.
  if (!topology.ok()) return true;
  const StatusOr<Plan> plan = MakePlan({.options = options_,
                                        .driver = driver,
                                        .claim = here,
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
  if (const auto wait = election_.Wait(claim.uid(), now); wait.count() > 0) {
    return Outcome::After(wait);
  }
  const std::string& node = options_.node_deployment.node_name;
  if (!HasRoom(claim, driver, storage_class)) {
    LOG_DEBUG("claim {}: node {} has no room for it", base::Quote(claim.key()), base::Quote(node));
    return Outcome::After(election_.Lost(claim.uid(), now));
  }
  const Status taken =
      UpdateAt(context_.client, claims_, claim,
               {{"metadata", {{"annotations", {{std::string(kSelectedNode), node}}}}}})
          .status();
  if (taken.code() == StatusCode::kAborted) {
    return Outcome::After(election_.Lost(claim.uid(), now));
  }
  return AfterApi(taken);
}

}  // namespace berth::controllers::provisioner
