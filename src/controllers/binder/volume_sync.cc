// The volumes' side of the binder (binder.h).
#include "api/time.h"
#include "base/log.h"
#include "controllers/binder/binder.h"
#include "controllers/claims.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::binder {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

bool IsReleased(const api::PersistentVolume& volume) {
  return volume.phase() == "Released" || volume.phase() == "Failed";
}

}  // namespace

Binder::Outcome Binder::SyncVolume(const std::string& key) {
  const auto volume = volumes_.Get(key);
  if (volume == nullptr) return Outcome::Done();
  if (!volume->has_claim_ref() || volume->claim_uid().empty()) {
    // The volume is free, or a person has reserved it for a claim that is not bound yet.
    return AfterApi(SetPhase(*volume, "Available"));
  }
  const std::string claim_key = api::ObjectKey(volume->claim_namespace(), volume->claim_name());
  const auto claim = claims_.Get(claim_key);
  if (claim != nullptr && claim->uid() == volume->claim_uid()) {
    return SyncVolumeOfClaim(*volume, *claim);
  }
  if (IsReleased(*volume)) return ReleaseVolume(*volume);
  // The API itself must say that the claim is gone, because a released volume may be deleted.
  const StatusOr<Claim> live =
      kube::Get<Claim>(context_.client, volume->claim_namespace(), volume->claim_name());
  if (live.ok() && live->uid() == volume->claim_uid()) {
    claims_.Observe(live->json());
    return Outcome::After(std::chrono::milliseconds(50));
  }
  if (!live.ok() && live.status().code() != StatusCode::kNotFound) return AfterApi(live.status());
  return ReleaseVolume(*volume);
}

Binder::Outcome Binder::SyncVolumeOfClaim(const Volume& volume, const Claim& claim) {
  if (claim.volume_name().empty()) {
    if (claim.volume_mode() != volume.volume_mode()) {
      const std::string message = fmt::format(
          "Cannot bind PersistentVolume \"{}\" to requested PersistentVolumeClaim "
          "\"{}\" due to incompatible volumeMode.",
          volume.name(), claim.name());
      Warn(volume, "VolumeMismatch", message);
      Warn(claim, "VolumeMismatch", message);
      return Outcome::Done();
    }
    claim_workers_.Add(claim.key());
    return Outcome::Done();
  }
  if (claim.volume_name() == volume.name()) {
    // The claim's status is written first, because users wait for it. That write queues the volume
    // again.
    if (claim.phase() != "Bound") return Outcome::Done();
    return AfterApi(SetPhase(volume, "Bound"));
  }
  // The claim was bound to another volume meanwhile. A volume that was provisioned for this claim
  // is of no use. One that a controller only reserved for it is older than the claim, and its data
  // may be wanted, so it is freed. Kubernetes releases that one, too, and so deletes it.
  const bool only_reserved = volume.has_annotation(kBoundByController) && !IsReleased(volume);
  if (volume.has_annotation(kProvisionedBy) && volume.reclaim_policy() == "Delete" &&
      !only_reserved) {
    return ReleaseVolume(volume);
  }
  return UnbindVolume(volume);
}

Binder::Outcome Binder::ReleaseVolume(const Volume& volume) {
  if (!IsReleased(volume)) {
    if (const Status released = SetPhase(volume, "Released"); !released.ok()) {
      return AfterApi(released);
    }
    LOG_INFO("volume {} is released: claim {} is gone or has another volume",
             base::Quote(volume.name()),
             base::Quote(api::ObjectKey(volume.claim_namespace(), volume.claim_name())));
    return Outcome::Done();  // the write queues the volume again
  }
  if (volume.phase() == "Failed") return Outcome::Done();
  // The provisioner of a CSI driver deletes the driver's volumes, whoever made their objects.
  if (volume.reclaim_policy() == "Delete" && !volume.has_annotation(kProvisionedBy) &&
      !volume.has_annotation(kMigratedTo) && !volume.has_csi()) {
    const std::string message =
        "no provisioner made this volume, so none can delete it: delete its data and the "
        "PersistentVolume by hand, or set its reclaim policy to Retain";
    Warn(volume, "VolumeFailedDelete", message);
    return AfterApi(SetPhase(volume, "Failed", message));
  }
  if (volume.reclaim_policy() == "Recycle") {
    const std::string message = "reclaim policy Recycle is obsolete and not supported";
    Warn(volume, "VolumeFailedRecycle", message);
    return AfterApi(SetPhase(volume, "Failed", message));
  }
  return Outcome::Done();
}

Binder::Outcome Binder::UnbindVolume(const Volume& volume) {
  Json patch;
  if (volume.has_annotation(kBoundByController)) {
    patch = {{"metadata", {{"annotations", {{std::string(kBoundByController), nullptr}}}}},
             {"spec", {{"claimRef", nullptr}}}};
  } else {
    // The name of the claim stays, because a person wrote it. The uid goes, so that another claim
    // of that name may bind.
    patch = {{"spec", {{"claimRef", {{"uid", nullptr}, {"resourceVersion", nullptr}}}}}};
  }
  const Status freed = PatchAt(context_.client, volumes_, volume, std::move(patch)).status();
  if (freed.ok()) {
    LOG_INFO("volume {} is not reserved any more: claim {} has another volume",
             base::Quote(volume.name()),
             base::Quote(api::ObjectKey(volume.claim_namespace(), volume.claim_name())));
  }
  return AfterApi(freed);
}

Status Binder::SetPhase(const Volume& volume, std::string_view phase, std::string_view message) {
  // phase() returns Pending for an absent phase, and Pending is never set here.
  if (volume.phase() == phase) return base::OkStatus();
  Json status = {{"phase", std::string(phase)},
                 {"message", message.empty() ? Json(nullptr) : Json(std::string(message))},
                 {"lastPhaseTransitionTime", api::FormatTime(context_.clock.Now())}};
  return PatchAt(context_.client, volumes_, volume, {{"status", std::move(status)}}, "status")
      .status();
}

}  // namespace berth::controllers::binder
