// The claims' side of the binder (binder.h).
#include "api/kinds/csi_names.h"
#include "base/log.h"
#include "controllers/binder/binder.h"
#include "controllers/claims.h"
#include "controllers/indexes.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::binder {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

Binder::Outcome Binder::SyncClaim(const std::string& key) {
  const auto claim = claims_.Get(key);
  if (claim == nullptr) return Outcome::Done();
  return claim->has_annotation(kBindCompleted) ? SyncBoundClaim(*claim) : SyncUnboundClaim(*claim);
}

Binder::Outcome Binder::SyncUnboundClaim(const Claim& claim) {
  if (claim.deleting() && !claim.has_finalizer(kProvisioningFinalizer)) return Outcome::Done();
  const std::string class_name = ClassName(claim, classes_);
  if (!claim.volume_name().empty()) return SyncClaimWithName(claim, class_name);

  const StatusOr<Claim> assigned = AssignDefaultClass(claim, class_name);
  if (!assigned.ok()) return AfterApi(assigned.status());
  const auto storage_class = classes_.Get(class_name);
  const auto volume = FindVolume(
      volumes_, *assigned,
      {.class_name = class_name,
       .pre_bound_only = claim.deleting() ||
                         (storage_class != nullptr && storage_class->wait_for_first_consumer()),
       .node = nullptr,
       .exclude = {}});
  if (volume != nullptr) return AfterApi(Bind(*volume, *assigned));
  if (claim.deleting()) return Outcome::Done();
  return AskForVolume(*assigned, class_name);
}

Binder::Outcome Binder::SyncClaimWithName(const Claim& claim, const std::string& class_name) {
  const auto volume = volumes_.Get(claim.volume_name());
  if (volume == nullptr) return Outcome::Done();  // the volume's creation queues the claim again
  if (!volume->has_claim_ref()) {
    if (const Status fits = CheckFits(*volume, claim, class_name); !fits.ok()) {
      Warn(claim, "VolumeMismatch",
           fmt::format("Cannot bind to requested volume \"{}\": {}", volume->name(),
                       base::Message(fits)));
      return Outcome::Done();
    }
    return AfterApi(Bind(*volume, claim));
  }
  if (RefersTo(*volume, claim)) return AfterApi(Bind(*volume, claim));
  Warn(claim, "FailedBinding",
       fmt::format("volume \"{}\" already bound to a different claim.", volume->name()));
  return Outcome::Done();
}

StatusOr<Binder::Claim> Binder::AssignDefaultClass(const Claim& claim,
                                                   const std::string& class_name) {
  // A claim without a class gets the default class, even if it was created before that class.
  if (class_name.empty() || claim.storage_class_name().has_value()) return claim;
  if (ClassName(claim, classes_) != class_name) return claim;
  ASSIGN_OR_RETURN(Claim assigned, PatchAt(context_.client, claims_, claim,
                                           {{"spec", {{"storageClassName", class_name}}}}));
  LOG_INFO("claim {} gets the default class {}", base::Quote(claim.key()), base::Quote(class_name));
  return assigned;
}

Binder::Outcome Binder::AskForVolume(const Claim& claim, const std::string& class_name) {
  if (class_name.empty()) {
    NoteEvent(claim, "FailedBinding",
              "no persistent volumes available for this claim and no storage class is set");
    return Outcome::Done();
  }
  const auto storage_class = classes_.Get(class_name);
  if (storage_class == nullptr) {
    Warn(claim, "ProvisioningFailed",
         fmt::format("storageclass.storage.k8s.io \"{}\" not found", class_name));
    return Outcome::Done();
  }
  if (storage_class->wait_for_first_consumer() && !claim.has_annotation(kSelectedNode)) {
    for (const auto& pod : pods_.ByIndex(kPodsByClaim, claim.key())) {
      if (pod->terminated() || pod->deleting()) continue;
      NoteEvent(claim, "WaitForPodScheduled",
                fmt::format("waiting for pod {} to be scheduled", pod->name()));
      return Outcome::Done();
    }
    NoteEvent(claim, "WaitForFirstConsumer",
              "waiting for first consumer to be created before binding");
    return Outcome::Done();
  }
  const std::string provisioner = storage_class->provisioner();
  if (provisioner == api::kNoProvisioner) {
    Warn(claim, "FailedBinding",
         fmt::format("no persistent volume of class \"{}\" fits this claim, and the class has no "
                     "provisioner: create a volume by hand",
                     class_name));
    return Outcome::Done();
  }
  if (claim.annotation(kStorageProvisioner) == provisioner &&
      claim.annotation(kBetaStorageProvisioner) == provisioner) {
    return Outcome::Done();
  }
  const StatusOr<Claim> asked =
      PatchAt(context_.client, claims_, claim,
              {{"metadata",
                {{"annotations",
                  {{std::string(kStorageProvisioner), provisioner},
                   {std::string(kBetaStorageProvisioner), provisioner}}}}}});
  if (!asked.ok()) return AfterApi(asked.status());
  LOG_INFO("provisioner {} is asked for a volume for claim {}", base::Quote(provisioner),
           base::Quote(claim.key()));
  NoteEvent(
      claim, "ExternalProvisioning",
      fmt::format("Waiting for a volume to be created either by the external provisioner '{}' or "
                  "manually by the system administrator. If volume creation is delayed, please "
                  "verify that the provisioner is running and correctly registered.",
                  provisioner));
  return Outcome::Done();
}

Status Binder::Bind(const Volume& volume, const Claim& claim) {
  if (volume.claim_uid() != claim.uid()) {
    Json patch = {{"spec", {{"claimRef", ClaimReference(claim)}}}};
    if (!volume.has_claim_ref()) {
      patch["metadata"]["annotations"][std::string(kBoundByController)] = "yes";
    }
    RETURN_IF_ERROR(PatchAt(context_.client, volumes_, volume, std::move(patch)));
  }
  if (IsBound(claim)) return WriteBoundStatus(volume, claim);

  Json patch = {{"metadata", {{"annotations", {{std::string(kBindCompleted), "yes"}}}}}};
  if (claim.volume_name().empty()) {
    patch["metadata"]["annotations"][std::string(kBoundByController)] = "yes";
    patch["spec"]["volumeName"] = volume.name();
  }
  if (claim.has_finalizer(kProvisioningFinalizer) && volume.has_annotation(kProvisionedBy)) {
    // The provisioned volume has its object now, so the claim does not need the finalizer any more.
    // A claim that gets another volume keeps the finalizer, until the provisioner knows whether it
    // has created one.
    patch["metadata"].update(FinalizersPatch(claim, "", kProvisioningFinalizer)["metadata"]);
  }
  ASSIGN_OR_RETURN(const Claim bound, PatchAt(context_.client, claims_, claim, std::move(patch)));
  LOG_INFO("claim {} is bound to volume {}", base::Quote(claim.key()), base::Quote(volume.name()));
  return WriteBoundStatus(volume, bound);
}

Status Binder::WriteBoundStatus(const Volume& volume, const Claim& claim) {
  if (claim.phase() == "Bound" && !claim.capacity().empty()) return base::OkStatus();
  Json status = {{"phase", "Bound"},
                 {"accessModes", volume.access_modes()},
                 {"capacity", {{"storage", volume.capacity()}}}};
  if (const std::string attributes = volume.volume_attributes_class_name(); !attributes.empty()) {
    status["currentVolumeAttributesClassName"] = attributes;
  }
  return Patch(context_.client, claims_, claim, {{"status", std::move(status)}}, "status").status();
}

Binder::Outcome Binder::SyncBoundClaim(const Claim& claim) {
  if (claim.volume_name().empty()) {
    return LoseClaim(claim, "ClaimLost",
                     "Bound claim has lost reference to PersistentVolume. Data on the volume is "
                     "lost!");
  }
  auto volume = volumes_.Get(claim.volume_name());
  if (volume == nullptr) {
    // Only the API knows that a volume is gone; the informer may not have seen it yet.
    StatusOr<Volume> live = kube::Get<Volume>(context_.client, "", claim.volume_name());
    if (live.status().code() == StatusCode::kNotFound) {
      return LoseClaim(claim, "ClaimLost",
                       "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    }
    if (!live.ok()) return AfterApi(live.status());
    volume = std::make_shared<const Volume>(*std::move(live));
  }
  if (!volume->has_claim_ref() || RefersTo(*volume, claim)) {
    return AfterApi(Bind(*volume, claim));
  }
  return LoseClaim(claim, "ClaimMisbound",
                   "Two claims are bound to the same volume, this one is bound incorrectly");
}

Binder::Outcome Binder::LoseClaim(const Claim& claim, std::string_view reason,
                                  std::string_view message) {
  if (claim.phase() == "Lost") return Outcome::Done();
  const StatusOr<Claim> lost = PatchAt(
      context_.client, claims_, claim,
      {{"status", {{"phase", "Lost"}, {"accessModes", nullptr}, {"capacity", nullptr}}}}, "status");
  if (lost.ok()) {
    LOG_WARNING("claim {} has lost its volume {}: {}", base::Quote(claim.key()),
                base::Quote(claim.volume_name()), message);
    Warn(claim, reason, message);
  }
  return AfterApi(lost.status());
}

}  // namespace berth::controllers::binder
