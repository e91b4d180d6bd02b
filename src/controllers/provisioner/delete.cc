// From a released PersistentVolume to nothing (provisioner.h).
#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/csi_codec.h"
#include "controllers/names.h"
#include "controllers/provisioner/provision_metrics.h"
#include "controllers/provisioner/provisioner.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

bool MadeBy(const api::PersistentVolume& volume, const DriverInfo& driver) {
  return volume.annotation(kProvisionedBy) == driver.name ||
         volume.annotation(kMigratedTo) == driver.name;
}

bool IsUnwanted(const api::PersistentVolume& volume) {
  return volume.phase() == "Released" && volume.reclaim_policy() == "Delete" && volume.has_csi();
}

// The finalizer is for volumes that are to be deleted with their claim, before that begins.
bool WantsFinalizer(const api::PersistentVolume& volume) {
  return volume.reclaim_policy() == "Delete" &&
         (!volume.deleting() || volume.has_finalizer(kVolumeFinalizer));
}

// One that is deleted and has lost the finalizer is gone in the driver; others hold the object.
bool WantsDeletion(const api::PersistentVolume& volume) {
  return IsUnwanted(volume) && (!volume.deleting() || volume.has_finalizer(kVolumeFinalizer));
}

}  // namespace

bool IsSettled(const api::PersistentVolume& volume) {
  return !volume.has_csi() || (!WantsDeletion(volume) &&
                               WantsFinalizer(volume) == volume.has_finalizer(kVolumeFinalizer));
}

Provisioner::Outcome Provisioner::SyncVolume(const std::string& key) {
  const auto driver = driver_.info();
  const auto volume = volumes_.Get(key);
  if (volume == nullptr) {
    base::MutexLock lock(mutex_);
    destroyed_.erase(key);
  }
  if (driver == nullptr || volume == nullptr || !MadeBy(*volume, *driver)) return Outcome::Done();
  if (!IsOurNodes(*volume)) return Outcome::Done();
  if (!WantsDeletion(*volume)) return AfterApi(SyncVolumeFinalizer(*volume));
  // An attachment's end brings the volume here again.
  if (!attachments_.ByIndex(kAttachmentsByVolume, key).empty()) return Outcome::Done();

  // Data is destroyed on the API's own word, not on a copy's.
  const StatusOr<Volume> live = kube::Get<Volume>(context_.client, "", key);
  if (!live.ok()) return AfterApi(live.status());
  if (live->uid() != volume->uid() || live->claim_uid() != volume->claim_uid() ||
      !WantsDeletion(*live)) {
    volumes_.Observe(live->json());
    return Outcome::Done();
  }
  return DeleteVolume(*live);
}

Status Provisioner::SyncVolumeFinalizer(const Volume& volume) {
  const bool wanted = WantsFinalizer(volume);
  if (wanted == volume.has_finalizer(kVolumeFinalizer)) return base::OkStatus();
  return PatchAt(context_.client, volumes_, volume,
                 FinalizersPatch(volume, wanted ? kVolumeFinalizer : "",
                                 wanted ? "" : kVolumeFinalizer))
      .status();
}

// Two objects can stand for one volume of the driver's, by a person's hand or a driver's fault:
// while the other is wanted its data is, too.
Status Provisioner::CheckAlone(const Volume& volume) const {
  const api::CsiSource csi = volume.csi();
  for (const auto& other :
       volumes_.ByIndex(kVolumesByHandle, HandleKey(csi.driver(), csi.volume_handle()))) {
    if (other->name() == volume.name() || IsUnwanted(*other)) continue;
    return base::Error(
        StatusCode::kFailedPrecondition,
        "volume '{}' is PersistentVolume '{}', too, and is not deleted with this one",
        csi.volume_handle(), other->name());
  }
  return base::OkStatus();
}

// The upstream program's role may list attachments only where its driver attaches: without them
// nobody knows who uses the volume.
Status Provisioner::CheckDetached(const DriverInfo& driver) const {
  if (!driver.Has(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME)) return base::OkStatus();
  return attachments_.CheckListed();
}

Status Provisioner::DestroyInDriver(const Volume& volume) {
  RETURN_IF_ERROR(CheckDetached(*driver_.info()));
  RETURN_IF_ERROR(CheckAlone(volume));
  {
    base::MutexLock lock(mutex_);
    const auto it = destroyed_.find(volume.name());
    if (it != destroyed_.end() && it->second == volume.uid()) return base::OkStatus();
  }
  ASSIGN_OR_RETURN(
      const auto secrets,
      ReadSecret(context_.client, {.name = volume.annotation(kDeletionSecretName),
                                   .ns = volume.annotation(kDeletionSecretNamespace)}));
  csi::v1::DeleteVolumeRequest request;
  request.set_volume_id(volume.csi().volume_handle());
  CopyTo(secrets, request.mutable_secrets());
  const Status deleted =
      driver_.Call(&rpc::CsiClient::DeleteVolume, request, options_.timeout).status();
  if (!deleted.ok()) return OfDriver(deleted);
  LOG_INFO("deleted volume {} of {}", base::Quote(volume.csi().volume_handle()),
           base::Quote(volume.name()));
  base::MutexLock lock(mutex_);
  given_.erase(volume.csi().volume_handle());
  destroyed_[volume.name()] = volume.uid();
  return base::OkStatus();
}

// The volume is gone in the driver; `written` is what became of its object.
Provisioner::Outcome Provisioner::DeletedInDriver(const Volume& volume, const Status& written) {
  if (!written.ok() && !IsOfApi(written) && written.code() != StatusCode::kNotFound) {
    context_.events.Record(volume.reference(), base::EventType::kWarning, "VolumeFailedDelete",
                           fmt::format("the volume is deleted, its PersistentVolume is not: {}",
                                       FailureText(written)));
  }
  return AfterApi(written);
}

Provisioner::Outcome Provisioner::DeleteVolume(const Volume& volume) {
  const auto began = std::chrono::steady_clock::now();
  const Status destroyed = DestroyInDriver(volume);
  if (IsOfApi(destroyed)) return AfterApi(destroyed);
  if (!destroyed.ok()) {
    CountDeleteFailed(context_.metrics, volume);
    context_.events.Record(volume.reference(), base::EventType::kWarning, "VolumeFailedDelete",
                           FailureText(destroyed));
    return Outcome::Retry(destroyed);
  }
  if (volume.has_finalizer(kVolumeFinalizer)) {
    const Status freed =
        PatchAt(context_.client, volumes_, volume, FinalizersPatch(volume, "", kVolumeFinalizer))
            .status();
    if (!freed.ok()) return DeletedInDriver(volume, freed);
  }
  if (!volume.deleting()) {
    if (const Status deleted = kube::Delete(context_.client, volume); !deleted.ok()) {
      return DeletedInDriver(volume, deleted);
    }
  }
  CountDeleted(context_.metrics, volume, began);
  return Outcome::Done();
}

}  // namespace berth::controllers::provisioner
