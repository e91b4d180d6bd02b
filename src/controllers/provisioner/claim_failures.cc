// What the provisioner does after the failures of a claim's CreateVolume (claim_provisioning.h).
//
// A volume may exist from the moment when the claim has the finalizer until the driver has said
// that none exists. Then the finalizer is removed. By the finalizer a later process knows that
// there may be a volume.
#include "base/log.h"
#include "controllers/csi_codec.h"
#include "controllers/names.h"
#include "controllers/provisioner/claim_provisioning.h"
#include "controllers/provisioner/provision_metrics.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::EventType;
using base::Json;
using base::Status;
using base::StatusCode;

ClaimProvisioning::Outcome ClaimProvisioning::FailBeforeCall(const Claim& claim,
                                                             const api::StorageClass& storage_class,
                                                             const Status& status) {
  // An API that is away for a moment is no failure of the claim.
  if (IsOfApi(status)) return AfterApi(status);
  ReportFailure(claim, storage_class.name(), status);
  return Outcome::Retry(status);
}

ClaimProvisioning::Outcome ClaimProvisioning::FailUnsentCall(const Claim& claim,
                                                             const PlanInputs& inputs,
                                                             Earlier earlier,
                                                             const std::optional<Attempt>& last,
                                                             const Status& status) {
  ReportFailure(claim, inputs.storage_class.name(), OfDriver(status));
  if (earlier == Earlier::kNone) {
    // The finalizer was written for this call alone, so there is no volume.
    attempts_.Record(claim.uid(), {});
    if (const Outcome released = ReleaseClaim(claim); claim.deleting()) return released;
  } else if (last.has_value()) {
    attempts_.Record(claim.uid(), *last);
  } else {
    attempts_.Forget(claim.uid());
  }
  return Outcome::Retry(status);
}

ClaimProvisioning::Outcome ClaimProvisioning::FailCall(const Claim& claim, const PlanInputs& inputs,
                                                       Earlier earlier, const Status& status) {
  if (!ProvesNoVolume(status.code(), earlier)) {
    Status shown = status;
    // These codes look as if there were no volume, so the event says why this is not known.
    if (ProvesNoVolume(status.code(), Earlier::kNone) ||
        status.code() == StatusCode::kAlreadyExists) {
      shown = OfDriver(base::Error(
          status.code(),
          "{} (an earlier call may have made the volume: the same one is asked for until the "
          "driver gives it)",
          base::Message(status)));
    }
    ReportFailure(claim, inputs.storage_class.name(), shown);
    return Outcome::Retry(status);
  }
  ReportFailure(claim, inputs.storage_class.name(), status);
  const FailureState state =
      Classify(status.code(), claim.has_annotation(kSelectedNode) &&
                                  (inputs.driver.topology() || options_.node_deployment.enabled()));
  std::optional<Attempt> last = attempts_.FindLast(claim.uid());
  last->earlier = Earlier::kNone;
  if (state == FailureState::kInfeasible) {
    last->not_before = std::chrono::steady_clock::now() + options_.retry_max;
  } else {
    last->plan = nullptr;
  }
  attempts_.Record(claim.uid(), *last);
  if (state == FailureState::kReschedule && !claim.deleting()) {
    return RescheduleClaim(claim, status);
  }
  if (const Outcome released = ReleaseClaim(claim); claim.deleting()) return released;
  if (state != FailureState::kInfeasible) return Outcome::Retry(status);
  LOG_WARNING("the volume of claim {} cannot be made as the claim asks: {}",
              base::Quote(claim.key()), base::ToString(status));
  return Outcome::After(options_.retry_max);
}

ClaimProvisioning::Outcome ClaimProvisioning::RefuseVolume(
    const Claim& claim, const Plan& plan, const csi::v1::CreateVolumeRequest& asked,
    const csi::v1::Volume& volume, const Status& why) {
  ReportFailure(claim, claim.storage_class_name().value_or(""), why);
  if (volume.volume_id().empty()) return Outcome::Retry(why);
  csi::v1::DeleteVolumeRequest request;
  request.set_volume_id(volume.volume_id());
  *request.mutable_secrets() = asked.secrets();
  const auto deleted = driver_.Call(&rpc::CsiClient::DeleteVolume, request, options_.timeout);
  if (!deleted.ok()) {
    // The next run asks for the same volume, gets it again, and tries to delete it again.
    context_.events.Record(claim.reference(), EventType::kWarning, "ProvisioningCleanupFailed",
                           fmt::format("Error cleaning provisioned volume \"{}\": {}",
                                       plan.volume_name, DriverError(deleted.status())));
    return Outcome::Retry(why);
  }
  handles_.ReleaseHandle(api::VolumeHandle(volume.volume_id()));
  LOG_INFO("volume {} is deleted, which was made for claim {} and is not what was asked for",
           base::Quote(volume.volume_id()), base::Quote(claim.key()));
  attempts_.Record(claim.uid(), {});
  if (const Outcome released = ReleaseClaim(claim); claim.deleting()) return released;
  return Outcome::Retry(why);
}

ClaimProvisioning::Outcome ClaimProvisioning::RescheduleClaim(const Claim& claim,
                                                              const Status& why) {
  // The present object is read, because `claim` may be the version from before the finalizer was
  // written.
  const auto current = claims_.Get(claim.key());
  if (current == nullptr || current->uid() != claim.uid() ||
      !current->has_annotation(kSelectedNode)) {
    return Outcome::Done();
  }
  LOG_INFO("claim {} is to get another node, because node {} cannot have its volume: {}",
           base::Quote(claim.key()), base::Quote(current->annotation(kSelectedNode)),
           base::ToString(why));
  // This node must not take the claim again at once, because its driver would refuse again.
  election_.Lost(claim.uid(), std::chrono::steady_clock::now());
  // The same write removes the finalizer, because no volume exists.
  Json patch = FinalizersPatch(*current, "", kProvisioningFinalizer);
  patch["metadata"]["annotations"] = {{std::string(kSelectedNode), nullptr}};
  return AfterApi(UpdateAt(context_.client, claims_, *current, patch).status());
}

ClaimProvisioning::Outcome ClaimProvisioning::ReleaseClaim(const Claim& claim) {
  const auto current = claims_.Get(claim.key());
  if (current == nullptr || current->uid() != claim.uid()) attempts_.SettleClaim(claim);
  if (current == nullptr || current->uid() != claim.uid() ||
      !current->has_finalizer(kProvisioningFinalizer)) {
    return Outcome::Done();
  }
  return AfterApi(UpdateAt(context_.client, claims_, *current,
                           FinalizersPatch(*current, "", kProvisioningFinalizer))
                      .status());
}

ClaimProvisioning::Outcome ClaimProvisioning::ReportTakenName(const Claim& claim,
                                                              const Volume& other) {
  const Status taken =
      Error(StatusCode::kAlreadyExists, "PersistentVolume '{}' exists and belongs to another claim",
            other.name());
  ReportFailure(claim, claim.storage_class_name().value_or(""), taken);
  return Outcome::Retry(taken);
}

void ClaimProvisioning::ReportFailure(const Claim& claim, const std::string& class_name,
                                      const Status& status) {
  CountProvisionFailed(context_.metrics, claim);
  context_.events.Record(claim.reference(), EventType::kWarning, "ProvisioningFailed",
                         fmt::format("failed to provision volume with StorageClass \"{}\": {}",
                                     class_name, FailureText(status)));
}

}  // namespace berth::controllers::provisioner
