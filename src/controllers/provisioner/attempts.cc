// What is known of a claim's CreateVolume, and what follows from its failures (provisioner.h).
//
// A volume may exist from the moment that the claim has the finalizer until the driver has said
// that none does, and then the finalizer goes: a process that comes later knows by it what may be
// left.
#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/csi_codec.h"
#include "controllers/names.h"
#include "controllers/provisioner/provisioner.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::EventType;
using base::Json;
using base::MutexLock;
using base::Status;

std::optional<Provisioner::Attempt> Provisioner::LastAttempt(const std::string& uid) const {
  MutexLock lock(mutex_);
  const auto it = attempts_.find(uid);
  return it == attempts_.end() ? std::nullopt : std::optional<Attempt>(it->second);
}

void Provisioner::SetAttempt(const std::string& uid, Attempt attempt) {
  MutexLock lock(mutex_);
  attempts_[uid] = std::move(attempt);
}

Earlier Provisioner::EarlierThan(const Claim& claim) const {
  if (const std::optional<Attempt> last = LastAttempt(claim.uid())) return last->earlier;
  return claim.has_finalizer(kProvisioningFinalizer) ? Earlier::kInherited : Earlier::kNone;
}

bool Provisioner::MayHaveVolume(const Claim& claim) const {
  const Earlier earlier = EarlierThan(claim);
  // Among provisioners of one node each, the one that began has the memory of it.
  if (earlier == Earlier::kInherited && options_.node_deployment.enabled() &&
      claim.annotation(kSelectedNode).empty()) {
    return LastAttempt(claim.uid()).has_value();
  }
  return earlier != Earlier::kNone;
}

Provisioner::Outcome Provisioner::NotSent(const Claim& claim, const PlanInputs& inputs,
                                          Earlier earlier, const std::optional<Attempt>& last,
                                          const Status& status) {
  ReportFailure(claim, inputs.storage_class.name(), OfDriver(status));
  if (earlier == Earlier::kNone) {
    // The finalizer that was written for this call tells of nothing.
    SetAttempt(claim.uid(), {});
    if (const Outcome released = Release(claim); claim.deleting()) return released;
  } else if (last.has_value()) {
    SetAttempt(claim.uid(), *last);
  } else {
    MutexLock lock(mutex_);
    attempts_.erase(claim.uid());
  }
  return Outcome::Retry(status);
}

Provisioner::Outcome Provisioner::CreateFailed(const Claim& claim, const PlanInputs& inputs,
                                               Earlier earlier, const Status& status) {
  if (!ProvesNoVolume(status.code(), earlier)) {
    Status shown = status;
    // What reads as if nothing were there.
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
  std::optional<Attempt> last = LastAttempt(claim.uid());
  last->earlier = Earlier::kNone;
  if (state == FailureState::kInfeasible) {
    last->not_before = std::chrono::steady_clock::now() + options_.retry_max;
  } else {
    last->plan = nullptr;
  }
  SetAttempt(claim.uid(), *last);
  if (state == FailureState::kReschedule && !claim.deleting()) return Reschedule(claim, status);
  if (const Outcome released = Release(claim); claim.deleting()) return released;
  if (state != FailureState::kInfeasible) return Outcome::Retry(status);
  LOG_WARNING("provision claim {}: infeasible: {}", base::Quote(claim.key()),
              base::ToString(status));
  return Outcome::After(options_.retry_max);
}

Provisioner::Outcome Provisioner::Refuse(const Claim& claim, const Plan& plan,
                                         const csi::v1::CreateVolumeRequest& asked,
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
  {
    base::MutexLock lock(mutex_);
    given_.erase(volume.volume_id());
  }
  SetAttempt(claim.uid(), {});
  if (const Outcome released = Release(claim); claim.deleting()) return released;
  return Outcome::Retry(why);
}

Provisioner::Outcome Provisioner::Reschedule(const Claim& claim, const Status& why) {
  // The version is that of before the finalizer was written: read what stands now.
  const auto current = claims_.Get(claim.key());
  if (current == nullptr || current->uid() != claim.uid() ||
      !current->has_annotation(kSelectedNode)) {
    return Outcome::Done();
  }
  LOG_INFO("claim {}: node {} cannot have the volume, another is to be chosen: {}",
           base::Quote(claim.key()), base::Quote(current->annotation(kSelectedNode)),
           base::ToString(why));
  // What held the claim for the call goes with it.
  Json patch = FinalizersPatch(*current, "", kProvisioningFinalizer);
  patch["metadata"]["annotations"] = {{std::string(kSelectedNode), nullptr}};
  return AfterApi(UpdateAt(context_.client, claims_, *current, patch).status());
}

Provisioner::Outcome Provisioner::Release(const Claim& claim) {
  const auto current = claims_.Get(claim.key());
  if (current == nullptr || current->uid() != claim.uid()) Settle(claim);
  if (current == nullptr || current->uid() != claim.uid() ||
      !current->has_finalizer(kProvisioningFinalizer)) {
    return Outcome::Done();
  }
  return AfterApi(UpdateAt(context_.client, claims_, *current,
                           FinalizersPatch(*current, "", kProvisioningFinalizer))
                      .status());
}

void Provisioner::Settle(const Claim& claim) {
  MutexLock lock(mutex_);
  attempts_.erase(claim.uid());
  const size_t lost =
      std::erase_if(lost_, [&](const auto& entry) { return entry.second->uid() == claim.uid(); });
  if (lost > 0) claim_workers_.AddNow(claim.key());
}

void Provisioner::KeepLost(const Claim& claim) {
  const bool has_object = volumes_.Get(VolumeName(options_, claim)) != nullptr;
  MutexLock lock(mutex_);
  const auto it = attempts_.find(claim.uid());
  if (it == attempts_.end()) return;
  if (has_object || !it->second.unknown()) {
    attempts_.erase(it);
    return;
  }
  // As it would be if it had not been torn away.
  Claim held = claim;
  held.add_finalizer(kProvisioningFinalizer);
  held.Set({"metadata", "deletionTimestamp"}, claim.creation_timestamp());
  lost_.emplace(claim.key(), std::make_shared<const Claim>(std::move(held)));
  claim_workers_.AddNow(claim.key());
}

std::shared_ptr<const Provisioner::Claim> Provisioner::ClaimOf(const std::string& key) const {
  {
    MutexLock lock(mutex_);
    if (const auto it = lost_.find(key); it != lost_.end()) return it->second;
  }
  return claims_.Get(key);
}

void Provisioner::ReleaseSettled() {
  const auto driver = driver_.info();
  if (driver == nullptr) return;
  for (const auto& claim : claims_.ByIndex(kOpenClaimsByProvisioner, driver->name)) {
    if (!claim->has_finalizer(kProvisioningFinalizer)) continue;
    const auto object = volumes_.Get(VolumeName(options_, *claim));
    const bool bound =
        object != nullptr && RefersTo(*object, *claim) && claim->volume_name() == object->name();
    if (!bound && EarlierThan(*claim) != Earlier::kNone) continue;
    const Outcome released = Release(*claim);
    // Whoever comes next goes on; an API that is away must not keep this process from its end.
    if (!released.status.ok()) break;
  }
}

}  // namespace berth::controllers::provisioner
