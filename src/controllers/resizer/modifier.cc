#include "controllers/resizer/modifier.h"

#include <array>

#include "base/log.h"
#include "controllers/call_metrics.h"
#include "controllers/claim_conditions.h"
#include "controllers/claims.h"
#include "controllers/csi_codec.h"
#include "controllers/queue_options.h"
#include "controllers/resizer/claim_status.h"
#include "controllers/writes.h"
#include "rpc/outcome.h"

namespace berth::controllers::resizer {

using base::Error;
using base::EventType;
using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// As MakeCondition, with a time of probing, which Go's resizer gives these conditions alone.
base::Json MakeProbed(std::string_view type, std::string_view message, const base::Clock& clock,
                      std::string_view reason = "") {
  base::Json condition = MakeCondition(type, message, clock, reason);
  condition["lastProbeTime"] = condition["lastTransitionTime"];
  return condition;
}

constexpr std::string_view kPending = "Pending";
constexpr std::string_view kInProgress = "InProgress";
constexpr std::string_view kInfeasible = "Infeasible";

constexpr std::array kOurs = {kModifyingVolume, kModifyVolumeError};
// The subset of claims for which MayNeedModification is true, and the index of claims by the class
// that they ask for.
constexpr char kClaimsToModify[] = "toModify";
constexpr char kClaimsByAttributesClass[] = "attributesClass";

std::string CurrentClass(const api::PersistentVolumeClaim& claim) {
  return claim.String({"status", "currentVolumeAttributesClassName"});
}
std::string TargetClass(const api::PersistentVolumeClaim& claim) {
  return claim.String({"status", "modifyVolumeStatus", "targetVolumeAttributesClassName"});
}
std::string ModifyStatus(const api::PersistentVolumeClaim& claim) {
  return claim.String({"status", "modifyVolumeStatus", "status"});
}

// Whether SyncClaim could have something to do.
bool MayNeedModification(const api::PersistentVolumeClaim& claim) {
  return !claim.volume_attributes_class_name().empty() || !ModifyStatus(claim).empty();
}

}  // namespace

Modifier::Modifier(Context context, DriverConnection& driver, Options options)
    : context_(context),
      driver_(driver),
      options_(options),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      bound_volumes_(context.informers, options.node_name),
      workers_(
          MakeQueueOptions("modify", options_.workers, options_, context, driver.expected_name()),
          [this](const std::string& key) { return SyncClaim(key); }) {
  claims_.AddSubset(kClaimsToModify, &MayNeedModification);
  claims_.AddIndex(kClaimsByAttributesClass, [](const Claim& claim) {
    const std::string wanted = claim.volume_attributes_class_name();
    return wanted.empty() ? std::vector<std::string>{} : std::vector<std::string>{wanted};
  });
  claims_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) {
      MutexLock lock(mutex_);
      states_.erase(change.key);
      return;
    }
    if (change.before != nullptr && change.before->volume_attributes_class_name() !=
                                        change.after->volume_attributes_class_name()) {
      workers_.AddNow(change.key);
    } else if (MayNeedModification(*change.after)) {
      workers_.Add(change.key);
    }
  });
  bound_volumes_.OnNodeChange([this] { Resync(); });
  driver_.OnReady([this] { Resync(); });
}

Modifier::~Modifier() { Stop(); }

void Modifier::Start() { workers_.Start(); }

void Modifier::Stop() {
  workers_.Stop();
  std::unique_ptr<kube::Informer<Class>> classes;
  MutexLock lock(mutex_);
  classes = std::exchange(classes_, nullptr);
}

void Modifier::Resync() {
  for (const auto& claim : claims_.Subset(kClaimsToModify)) workers_.Add(claim->key());
}

void Modifier::QueueClaimsOf(const std::string& class_name) {
  for (const auto& claim : claims_.ByIndex(kClaimsByAttributesClass, class_name)) {
    workers_.AddNow(claim->key());
  }
}

void Modifier::WatchClasses() {
  MutexLock lock(mutex_);
  if (classes_ != nullptr) return;
  classes_ = std::make_unique<kube::Informer<Class>>(context_.client);
  classes_->AddHandler([this](const auto& change) {
    if (change.before == nullptr) QueueClaimsOf(change.key);
  });
  classes_->Start();
}

Modifier::Outcome Modifier::SyncClaim(const std::string& key) {
  const auto driver = driver_.info();
  const auto claim = claims_.Get(key);
  const auto volume = bound_volumes_.Of(claim.get(), driver.get());
  if (volume == nullptr) return Outcome::From(bound_volumes_.CheckSeen(claim.get()));
  const std::string wish = claim->volume_attributes_class_name();
  const bool in_progress = ModifyStatus(*claim) == kInProgress;
  if (ModifyStatus(*claim).empty() && wish == CurrentClass(*claim)) return Outcome::Done();
  if (wish.empty() && !in_progress) return RollBack(*claim);
  ClaimState state;
  {
    MutexLock lock(mutex_);
    ClaimState& known = states_[key];
    if (known.wish != wish) known.not_before.reset();
    state = known;
  }
  const bool goes_on = in_progress && (!state.failed_finally || wish.empty());
  const std::string target = goes_on ? TargetClass(*claim) : wish;
  if (!driver->Has(DriverInfo::Rpc::MODIFY_VOLUME)) {
    context_.events.Record(claim->reference(), EventType::kWarning, "VolumeModifyFailed",
                           fmt::format("driver \"{}\" cannot modify volumes", driver->name));
    return Outcome::Done();
  }
  if (const auto now = std::chrono::steady_clock::now();
      state.not_before.has_value() && now < *state.not_before) {
    return Outcome::After(std::chrono::ceil<std::chrono::milliseconds>(*state.not_before - now));
  }
  return Modify(*claim, *volume, *driver, target, goes_on);
}

Modifier::Outcome Modifier::Modify(const Claim& claim, const Volume& volume,
                                   const DriverInfo& driver, const std::string& target,
                                   bool goes_on) {
  const StatusOr<Class> found = kube::Get<Class>(context_.client, "", target);
  if (found.status().code() == StatusCode::kNotFound) {
    return goes_on ? AskForClass(claim, target) : WaitForClass(claim, target);
  }
  if (!found.ok()) return HandleFailure(claim, found.status());
  if (found->driver_name() != driver.name) {
    return HandleFailure(claim, Error(StatusCode::kInvalidArgument,
                                      "VolumeAttributesClass '{}' is for driver '{}', not for '{}'",
                                      target, found->driver_name(), driver.name));
  }
  const auto request = MakeRequest(claim, volume, *found);
  if (!request.ok()) return HandleFailure(claim, request.status());
  const StatusOr<Claim> begun = WriteTarget(claim, target);
  if (!begun.ok()) {
    return HandleFailure(claim, base::Annotate(begun.status(), "write the target to the claim"));
  }
  const Status modified =
      driver_.Call(&rpc::CsiClient::ControllerModifyVolume, *request, options_.timeout).status();
  if (!modified.ok()) return HandleFailure(*begun, OfDriver(modified));
  return Finish(*begun, volume, target);
}

StatusOr<csi::v1::ControllerModifyVolumeRequest> Modifier::MakeRequest(const Claim& claim,
                                                                       const Volume& volume,
                                                                       const Class& target) const {
  csi::v1::ControllerModifyVolumeRequest request;
  request.set_volume_id(volume.csi().volume_handle());
  CopyTo(target.parameters(), request.mutable_mutable_parameters());
  if (options_.extra_modify_metadata) {
    auto& parameters = *request.mutable_mutable_parameters();
    parameters["csi.storage.k8s.io/pvc/name"] = claim.name();
    parameters["csi.storage.k8s.io/pvc/namespace"] = claim.ns();
    parameters["csi.storage.k8s.io/pv/name"] = volume.name();
  }
  // The provisioner records the class's secret in annotations, because a PersistentVolume has no
  // field for it. Without them it is the secret for growth, as with Go's resizer.
  api::SecretReference secret = {
      .name = volume.annotation("volume.kubernetes.io/controller-modify-secret-name"),
      .ns = volume.annotation("volume.kubernetes.io/controller-modify-secret-namespace")};
  if (secret.name.empty() || secret.ns.empty()) {
    secret = volume.csi().secret_ref("controllerExpandSecretRef");
  }
  ASSIGN_OR_RETURN(const auto secrets, ReadSecret(context_.client, secret));
  CopyTo(secrets, request.mutable_secrets());
  return request;
}

StatusOr<Modifier::Claim> Modifier::WriteTarget(const Claim& claim, const std::string& target) {
  if (ModifyStatus(claim) == kInProgress && TargetClass(claim) == target) return claim;
  ASSIGN_OR_RETURN(
      Claim begun,
      PatchAt(
          context_.client, claims_, claim,
          {{"status",
            {{"modifyVolumeStatus",
              {{"targetVolumeAttributesClassName", target}, {"status", std::string(kInProgress)}}},
             {"conditions",
              ReplaceConditions(
                  claim, {},
                  MakeProbed(kModifyingVolume,
                             fmt::format("Modifying volume to \"{}\" is in progress.", target),
                             context_.clock))}}}},
          "status"));
  context_.events.Record(
      claim.reference(), EventType::kNormal, "VolumeModify",
      fmt::format("external resizer is modifying volume {} with vac {}", claim.name(), target));
  return begun;
}

Modifier::Outcome Modifier::Finish(const Claim& claim, const Volume& volume,
                                   const std::string& target) {
  // The volume is written first, because its claim's status says that all is done.
  if (volume.volume_attributes_class_name() != target) {
    const Status written = Patch(context_.client, volumes_, volume,
                                 {{"spec", {{"volumeAttributesClassName", target}}}})
                               .status();
    if (!written.ok()) return AfterApi(written);
  }
  const auto make = [&](const Claim& current) -> Json {
    return {{"currentVolumeAttributesClassName", target},
            {"modifyVolumeStatus", nullptr},
            {"conditions", ReplaceConditions(current, kOurs, nullptr)}};
  };
  const Status ended = PatchStatusAfterCall(context_.client, claims_, claim, make).status();
  if (!ended.ok()) return AfterApi(ended);
  {
    MutexLock lock(mutex_);
    states_.erase(claim.key());
  }
  LOG_INFO("volume {} of claim {} is modified to class {}", base::Quote(volume.name()),
           base::Quote(claim.key()), base::Quote(target));
  context_.events.Record(claim.reference(), EventType::kNormal, "VolumeModifySuccessful",
                         fmt::format("external resizer modified volume {} with vac {} successfully",
                                     claim.name(), target));
  return Outcome::Done();
}

Modifier::Outcome Modifier::RollBack(const Claim& claim) {
  if (!HasCondition(claim, kModifyingVolume)) return Outcome::Done();
  constexpr std::array kModifying = {kModifyingVolume};
  const Status written =
      PatchAt(context_.client, claims_, claim,
              {{"status", {{"conditions", ReplaceConditions(claim, kModifying, nullptr)}}}},
              "status")
          .status();
  if (!written.ok()) return AfterApi(written);
  LOG_INFO("volume {} of claim {} is not modified to class {}, which is not asked for any more",
           base::Quote(claim.volume_name()), base::Quote(claim.key()),
           base::Quote(TargetClass(claim)));
  context_.events.Record(claim.reference(), EventType::kNormal, "VolumeModifyCanceled",
                         "Cancelled modify.");
  return Outcome::Done();
}

void Modifier::TellMissingClass(const Claim& claim, const std::string& name) {
  context_.events.Record(claim.reference(), EventType::kWarning, "VolumeModifyFailed",
                         fmt::format("VAC \"{}\" does not exist.", name));
}

Modifier::Outcome Modifier::AskForClass(const Claim& claim, const std::string& name) {
  WatchClasses();
  TellMissingClass(claim, name);
  return Outcome::Retry(
      Error(StatusCode::kNotFound, "VolumeAttributesClass '{}' does not exist", name));
}

Modifier::Outcome Modifier::WaitForClass(const Claim& claim, const std::string& name) {
  WatchClasses();
  bool told = false;
  {
    MutexLock lock(mutex_);
    told = std::exchange(states_[claim.key()].missing_class, name) == name;
  }
  if (!told) TellMissingClass(claim, name);
  if (ModifyStatus(claim) == kPending) return Outcome::Done();
  // The target is that of the modification before, as with Go's resizer.
  return AfterApi(PatchAt(context_.client, claims_, claim,
                          {{"status", {{"modifyVolumeStatus", {{"status", kPending}}}}}}, "status")
                      .status());
}

Modifier::Outcome Modifier::HandleFailure(const Claim& claim, const Status& status) {
  if (IsOfApi(status)) return AfterApi(status);
  // INVALID_ARGUMENT from the driver means that it changed nothing. From our own checks before the
  // first call it means that nothing will change until somebody edits an object. After a call, our
  // own checks do not tell what that call may have changed.
  const bool infeasible = status.code() == StatusCode::kInvalidArgument &&
                          (IsOfDriver(status) || ModifyStatus(claim) != kInProgress);
  const bool final = !IsOfDriver(status) || rpc::IsFinal(status);
  const std::string target = ModifyStatus(claim) == kInProgress
                                 ? TargetClass(claim)
                                 : claim.volume_attributes_class_name();
  const std::string text =
      FailureText(status) + (final ? "" : ". Still modifying to VAC " + target);
  context_.events.Record(claim.reference(), EventType::kWarning, "VolumeModifyFailed", text);
  // The driver's own words, and its code as the reason.
  const std::string message(rpc::SentMessage(status));
  if (infeasible || ConditionMessage(claim, kModifyVolumeError) != message) {
    Claim changed = claim;
    changed.Set({"status", "conditions"},
                ReplaceConditions(claim, {},
                                  MakeProbed(kModifyingVolume,
                                             fmt::format("Modifying volume to \"{}\" {}", target,
                                                         final ? "failed. Waiting for retry."
                                                               : "is still in progress."),
                                             context_.clock)));
    Json change = {
        {"conditions", ReplaceConditions(changed, {},
                                         MakeProbed(kModifyVolumeError, message, context_.clock,
                                                    GoCodeName(status.code())))}};
    if (infeasible) {
      change["modifyVolumeStatus"] = {{"targetVolumeAttributesClassName", target},
                                      {"status", std::string(kInfeasible)}};
    }
    const Status written =
        PatchAt(context_.client, claims_, claim, {{"status", std::move(change)}}, "status")
            .status();
    if (!written.ok() && infeasible) return AfterApi(written);
  }
  MutexLock lock(mutex_);
  ClaimState& state = states_[claim.key()];
  if (IsOfDriver(status)) state.failed_finally = rpc::IsFinal(status);
  if (!infeasible) return Outcome::Retry(status);
  LOG_WARNING("the volume of claim {} cannot be modified as the claim asks: {}",
              base::Quote(claim.key()), text);
  state.not_before = std::chrono::steady_clock::now() + options_.retry_max;
  state.wish = claim.volume_attributes_class_name();
  return Outcome::After(options_.retry_max);
}

}  // namespace berth::controllers::resizer
