// What the provisioner does after the failures of a claim's CreateVolume (claim_provisioning.h).
//
// A volume may exist from the moment when the intent is recorded until the driver has said that
// none exists. Then the intent is released. As in the Go provisioner a final failure ends the try
// all the same: the next one reads class, source and node anew.
#include "base/log.h"
#include "controllers/csi_codec.h"
#include "controllers/provisioner/claim_provisioning.h"
#include "controllers/provisioner/indexes.h"
#include "controllers/provisioner/provision_metrics.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"
#include "rpc/outcome.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::EventType;
using base::Json;
using base::Status;
using base::StatusCode;

namespace {

// As the Go provisioner says it.
constexpr std::string_view kInfeasible =
    "Volume provisioning failed with infeasible error. Retries will be delayed. ";
constexpr std::string_view kBeginning = "Provisioning";  // the reason of the event

std::string BeginningOf(const api::PersistentVolumeClaim& claim) {
  return fmt::format("External provisioner is provisioning volume for claim \"{}\"", claim.key());
}
}  // namespace

ClaimProvisioning::Outcome ClaimProvisioning::FailBeforeCall(const Claim& claim,
                                                             const api::StorageClass& storage_class,
                                                             const Status& status) {
  // An API that is away for a moment is no failure of the claim.
  if (IsOfApi(status)) return AfterApi(status);
  ReportBeginning(claim);
  ReportFailure(claim, status);
  return Outcome::Retry(status);
}

ClaimProvisioning::Outcome ClaimProvisioning::FailUnsentCall(const Claim& claim,
                                                             const PlanInputs& inputs,
                                                             Earlier earlier,
                                                             const std::optional<Attempt>& last,
                                                             const Status& status) {
  ReportFailure(claim, OfDriver(status));
  // The intent of an older version's call stays, because its finalizer is off.
  if (earlier != Earlier::kInherited) attempts_.Record(claim.uid(), last.value_or(Attempt()));
  return SettleIfGone(claim) ? Outcome::Done() : Outcome::Retry(status);
}

ClaimProvisioning::Outcome ClaimProvisioning::FailCall(const Claim& claim, const PlanInputs& inputs,
                                                       Earlier earlier, const Status& status) {
  const bool unwanted = claim.deleting() || !claim.volume_name().empty();
  const bool can_reschedule = !unwanted && claim.has_annotation(kSelectedNode) &&
                              (inputs.driver.topology() || options_.node_deployment.enabled());
  FailureState state =
      ClassifyFailure(status.code(), can_reschedule ? OtherNodes::kPossible : OtherNodes::kNone);
  // The driver of this node was asked and has no volume: another node may reach the source.
  if (state == FailureState::kFinished && can_reschedule && options_.node_deployment.enabled() &&
      !reach_.ReachesSource(claim)) {
    state = FailureState::kReschedule;
  }
  if (state != FailureState::kInBackground) options_.on_refused(inputs.claim_class.name());
  ReportFailure(claim, status, state == FailureState::kInfeasible ? kInfeasible : "");
  if (!ProvesNoVolume(status.code(), earlier)) {
    const bool goes_on = state == FailureState::kInBackground ||
                         (earlier == Earlier::kInherited && state != FailureState::kReschedule);
    if (!goes_on) GiveAttemptUp(claim);
    return state == FailureState::kReschedule ? RescheduleClaim(claim, status)
                                              : Outcome::Retry(status);
  }
  std::optional<Attempt> last = attempts_.FindLast(claim.uid());
  last->earlier = Earlier::kNone;
  if (state == FailureState::kInfeasible) {
    last->not_before = std::chrono::steady_clock::now() + options_.retry_max;
  } else {
    last->plan = nullptr;
  }
  attempts_.Record(claim.uid(), *last);
  if (SettleIfGone(claim)) return Outcome::Done();
  if (state == FailureState::kReschedule) return RescheduleClaim(claim, status);
  if (claim.deleting()) return Outcome::Done();
  if (state != FailureState::kInfeasible) return Outcome::Retry(status);
  LOG_WARNING("the volume of claim {} cannot be made as the claim asks: {}",
              base::Quote(claim.key()), base::ToString(status));
  return Outcome::After(options_.retry_max);
}

void ClaimProvisioning::GiveAttemptUp(const Claim& claim) {
  Attempt given_up = *attempts_.FindLast(claim.uid());
  given_up.earlier = Earlier::kNone;
  given_up.given_up = std::exchange(given_up.plan, nullptr);
  attempts_.Record(claim.uid(), std::move(given_up));
}

void ClaimProvisioning::SettleGivenUp(const Claim& claim, const Plan& plan,
                                      const DriverInfo& driver) {
  std::optional<Attempt> last = attempts_.FindLast(claim.uid());
  if (!last.has_value() || last->unknown() || last->given_up == nullptr) return;
  if (IsSameRequest(*last->given_up, plan)) {
    // It is the same call again, whose answer tells whether there is a volume.
    last->earlier = Earlier::kSameCall;
    last->plan = std::exchange(last->given_up, nullptr);
    last->not_before = std::nullopt;
  } else if (TakeBackVolume(claim, *last->given_up, driver).ok()) {
    last->given_up = nullptr;
  }
  // An error is no reason to wait: after a volume from there the driver would refuse the new call.
  attempts_.Record(claim.uid(), *last);
}

ClaimProvisioning::Outcome ClaimProvisioning::RefuseVolume(
    const Claim& claim, const Plan& plan, const csi::v1::CreateVolumeRequest& asked,
    const csi::v1::Volume& volume, const Status& why) {
  ReportFailure(claim, why);
  if (volume.volume_id().empty()) return Outcome::Retry(why);
  // After an error the next run asks for the same volume, gets it again, and tries to delete it
  // again.
  if (!DeleteVolume(claim, plan, volume.volume_id(), asked.secrets()).ok()) {
    return Outcome::Retry(why);
  }
  LOG_INFO("volume {} is deleted, which was made for claim {} and is not what was asked for",
           base::Quote(volume.volume_id()), base::Quote(claim.key()));
  Attempt settled = *attempts_.FindLast(claim.uid());
  settled.earlier = Earlier::kNone;
  settled.plan = nullptr;
  attempts_.Record(claim.uid(), std::move(settled));
  return SettleIfGone(claim) || claim.deleting() ? Outcome::Done() : Outcome::Retry(why);
}

Status ClaimProvisioning::DeleteVolume(
    const Claim& claim, const Plan& plan, const std::string& handle,
    const google::protobuf::Map<std::string, std::string>& secrets) {
  csi::v1::DeleteVolumeRequest request;
  request.set_volume_id(handle);
  *request.mutable_secrets() = secrets;
  const Status deleted =
      driver_.Call(&rpc::CsiClient::DeleteVolume, request, options_.timeout).status();
  if (!deleted.ok()) {
    context_.events.Record(claim.reference(), EventType::kWarning, "ProvisioningCleanupFailed",
                           fmt::format("Error cleaning provisioned volume \"{}\": {}",
                                       plan.volume_name, DriverError(deleted)));
    return deleted;
  }
  handles_.ReleaseHandle(api::VolumeHandle(handle));
  return base::OkStatus();
}

Status ClaimProvisioning::TakeBackVolume(const Claim& claim, const Plan& plan,
                                         const DriverInfo& driver) {
  csi::v1::CreateVolumeRequest request = plan.request;
  ASSIGN_OR_RETURN(const auto secrets,
                   ReadSecret(context_.client, plan.secret(SecretUse::kProvisioner)));
  CopyTo(secrets, request.mutable_secrets());
  // The same call tells whether there is a volume, and which.
  const auto response = driver_.Call(&rpc::CsiClient::CreateVolume, request, options_.timeout);
  if (!response.ok()) {
    const bool none = !rpc::WasNotSent(response.status()) &&
                      ProvesNoVolume(response.status().code(), Earlier::kSameCall);
    return none ? base::OkStatus() : response.status();
  }
  const std::string& handle = response->volume().volume_id();
  // A volume that is in use, or that is not what was asked for, was made by another call.
  if (handle.empty() ||
      !volumes_.ByIndex(kVolumesByHandle, HandleKey(driver.name, api::VolumeHandle(handle)))
           .empty() ||
      !CheckAnswer(plan, response->volume()).ok()) {
    return base::OkStatus();
  }
  RETURN_IF_ERROR(DeleteVolume(claim, plan, handle, request.secrets()));
  LOG_INFO("volume {} is deleted, which a call for claim {} made that was given up",
           base::Quote(handle), base::Quote(claim.key()));
  return base::OkStatus();
}

ClaimProvisioning::Outcome ClaimProvisioning::LeaveClaim(const Claim& claim, const Attempt& last,
                                                         const DriverInfo& driver) {
  const auto& plan = last.given_up != nullptr ? last.given_up : last.plan;
  if (const Status taken_back = TakeBackVolume(claim, *plan, driver); !taken_back.ok()) {
    return Outcome::Retry(taken_back);
  }
  attempts_.SettleClaim(claim);
  return Outcome::Done();
}

bool ClaimProvisioning::SettleIfGone(const Claim& claim) {
  if (IsThere(claim)) return false;
  const std::optional<Attempt> last = attempts_.FindLast(claim.uid());
  if (last.has_value() && last->open()) return false;
  attempts_.SettleClaim(claim);
  return true;
}

ClaimProvisioning::Outcome ClaimProvisioning::RescheduleClaim(const Claim& claim,
                                                              const Status& why) {
  // The present object is read, because `claim` may be older than the call.
  const auto current = claims_.Get(claim.key());
  if (current == nullptr || current->uid() != claim.uid() ||
      !current->has_annotation(kSelectedNode)) {
    return Outcome::Done();
  }
  LOG_INFO("claim {} is to get another node, because node {} cannot have its volume: {}",
           base::Quote(claim.key()), base::Quote(current->annotation(kSelectedNode)),
           base::ToString(why));
  // This node must not take the claim again at once, because its driver would refuse again.
  election_.NoteLoss(claim.uid(), std::chrono::steady_clock::now());
  const Json patch = {{"metadata", {{"annotations", {{std::string(kSelectedNode), nullptr}}}}}};
  return AfterApi(UpdateAt(context_.client, claims_, *current, patch).status());
}

ClaimProvisioning::Outcome ClaimProvisioning::ReleaseClaim(const Claim& claim) {
  const auto current = claims_.Get(claim.key());
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
  ReportFailure(claim, taken);
  return Outcome::Retry(taken);
}

void ClaimProvisioning::ReportFailure(const Claim& claim, const Status& status,
                                      std::string_view prefix) {
  CountProvisionFailed(context_.metrics, claim);
  context_.events.Record(claim.reference(), EventType::kWarning, "ProvisioningFailed",
                         fmt::format("{}{}", prefix, FailureText(status)));
}

void ClaimProvisioning::ReportBeginning(const Claim& claim) {
  context_.events.Record(claim.reference(), EventType::kNormal, kBeginning, BeginningOf(claim));
}

void ClaimProvisioning::ReportSuccess(const Claim& claim, const Volume& volume) {
  context_.events.Withdraw(claim.reference(), EventType::kNormal, kBeginning, BeginningOf(claim));
  context_.events.Record(claim.reference(), EventType::kNormal, "ProvisioningSucceeded",
                         fmt::format("Successfully provisioned volume {}", volume.name()));
}

}  // namespace berth::controllers::provisioner
