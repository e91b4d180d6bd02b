#include "controllers/provisioner/volume_deletion.h"

#include <algorithm>
#include <utility>

#include "api/migration/translation.h"
#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/csi_codec.h"
#include "controllers/indexes.h"
#include "controllers/provisioner/class_parameters.h"
#include "controllers/provisioner/class_translation.h"
#include "controllers/provisioner/indexes.h"
#include "controllers/provisioner/plan.h"
#include "controllers/provisioner/provision_metrics.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

bool IsUnwanted(const api::PersistentVolume& volume) {
  return volume.phase() == "Released" && volume.reclaim_policy() == "Delete" &&
         MayBeDrivers(volume);
}

// Bound volumes that are to be deleted with their claim get the finalizer, before their deletion
// begins. An Available one does not get it, because nobody would remove it when the object is
// deleted.
bool LacksFinalizer(const api::PersistentVolume& volume) {
  return volume.reclaim_policy() == "Delete" && volume.phase() == "Bound" && !volume.deleting() &&
         !volume.has_finalizer(kVolumeFinalizer);
}

bool HasNeedlessFinalizer(const api::PersistentVolume& volume) {
  return volume.reclaim_policy() != "Delete" && volume.has_finalizer(kVolumeFinalizer);
}

// If a deleted object has lost the finalizer, its volume is gone in the driver, and only finalizers
// of other programs keep the object.
bool WantsDeletion(const api::PersistentVolume& volume) {
  return IsUnwanted(volume) && (!volume.deleting() || volume.has_finalizer(kVolumeFinalizer));
}

}  // namespace

bool MayBeDrivers(const api::PersistentVolume& volume) {
  return volume.has_csi() || api::migration::IsMigratable(volume);
}

bool IsSettled(const api::PersistentVolume& volume) {
  return !MayBeDrivers(volume) ||
         (!WantsDeletion(volume) && !LacksFinalizer(volume) && !HasNeedlessFinalizer(volume));
}

std::vector<std::string> OwnersOf(const api::PersistentVolume& volume) {
  std::vector<std::string> owners{volume.annotation(kMigratedTo)};
  if (volume.has_annotation(kProvisionedBy)) {
    owners.push_back(volume.annotation(kProvisionedBy));
    owners.emplace_back(api::migration::DriverOf(owners.back()));
  } else if (volume.has_csi()) {
    owners.push_back(volume.csi().driver());
  }
  return owners;
}

VolumeDeletion::VolumeDeletion(const Context& context, DriverConnection& driver,
                               std::chrono::milliseconds timeout, VolumeHandles& handles,
                               const NodeReach& reach)
    : context_(context),
      driver_(driver),
      timeout_(timeout),
      handles_(handles),
      reach_(reach),
      volumes_(context.informers.Of<Volume>()),
      classes_(context.informers.Of<api::StorageClass>()),
      attachments_(context.informers.OfOptional<api::VolumeAttachment>()) {}

VolumeDeletion::Outcome VolumeDeletion::SyncVolume(const std::string& key) {
  const auto driver = driver_.info();
  const auto volume = volumes_.Get(key);
  if (volume == nullptr) {
    base::MutexLock lock(mutex_);
    destroyed_.erase(key);
    deleted_.erase(key);
  }
  if (driver == nullptr || volume == nullptr) return Outcome::Done();
  const std::vector<std::string> owners = OwnersOf(*volume);
  if (std::ranges::find(owners, driver->name) == owners.end()) return Outcome::Done();
  if (!reach_.ReachesVolume(*volume)) return Outcome::Done();
  if (!WantsDeletion(*volume)) return AfterApi(SyncFinalizer(*volume));
  {
    // The copy does not show yet what this process did, and the API need not be asked about it. If
    // the copy has the finalizer, somebody wrote it back, and it must be removed again.
    base::MutexLock lock(mutex_);
    const auto it = deleted_.find(key);
    if (it != deleted_.end() && it->second == volume->uid() &&
        !volume->has_finalizer(kVolumeFinalizer)) {
      return Outcome::Done();
    }
  }
  if (driver->Has(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME)) {
    const auto attachments = attachments_.ByIndex(kAttachmentsByVolume, key);
    // The end of an attachment queues the volume again.
    if (!attachments.empty()) return ReportAttached(*volume, *attachments.front());
  }

  // The API itself is asked before data is destroyed, because the copy may be old.
  const StatusOr<Volume> live = kube::Get<Volume>(context_.client, "", key);
  if (!live.ok()) return AfterApi(live.status());
  if (live->uid() != volume->uid() || live->claim_uid() != volume->claim_uid() ||
      !WantsDeletion(*live)) {
    volumes_.Observe(live->json());
    return Outcome::Done();
  }
  return DeleteVolume(*live);
}

Status VolumeDeletion::SyncFinalizer(const Volume& volume) {
  const bool lacks = LacksFinalizer(volume);
  if (!lacks && !HasNeedlessFinalizer(volume)) return base::OkStatus();
  return PatchAt(
             context_.client, volumes_, volume,
             FinalizersPatch(volume, lacks ? kVolumeFinalizer : "", lacks ? "" : kVolumeFinalizer))
      .status();
}

// Two objects can stand for one volume of the driver, by an error of a person or a driver. While
// the other object is wanted, its data must stay.
Status VolumeDeletion::CheckAlone(const Volume& volume) const {
  const api::CsiSource csi = volume.csi();
  for (const auto& other : volumes_.ByIndex(
           kVolumesByHandle, HandleKey(csi.driver(), api::VolumeHandle(csi.volume_handle())))) {
    if (other->name() == volume.name() || IsUnwanted(*other)) continue;
    return base::Error(
        StatusCode::kFailedPrecondition,
        "volume '{}' is PersistentVolume '{}', too, and is not deleted with this one",
        csi.volume_handle(), other->name());
  }
  return base::OkStatus();
}

// Without the list of attachments it is not known which nodes use the volume. The upstream
// program's role may list them only where its driver attaches, so other drivers need none.
Status VolumeDeletion::CheckDetached(const DriverInfo& driver) const {
  if (!driver.Has(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME)) return base::OkStatus();
  return attachments_.CheckListed();
}

// A volume that was made by hand, or by an old provisioner, has no annotations for the secret.
StatusOr<api::SecretReference> VolumeDeletion::FindSecret(const Volume& volume) const {
  if (volume.has_annotation(kDeletionSecretName) &&
      volume.has_annotation(kDeletionSecretNamespace)) {
    return api::SecretReference{.name = volume.annotation(kDeletionSecretName),
                                .ns = volume.annotation(kDeletionSecretNamespace)};
  }
  const std::string class_name = VolumeClassName(volume);
  if (class_name.empty() || !volume.has_claim_ref()) return api::SecretReference{};
  RETURN_IF_ERROR(classes_.CheckListed());
  const auto storage_class = classes_.Get(class_name);
  if (storage_class == nullptr) {
    LOG_WARNING("volume {} is deleted without a secret: its class {} is gone",
                base::Quote(volume.name()), base::Quote(class_name));
    return api::SecretReference{};
  }
  const api::PersistentVolumeClaim claim(
      {{"metadata", {{"name", volume.claim_name()}, {"namespace", volume.claim_namespace()}}}});
  const auto secret = [&]() -> StatusOr<api::SecretReference> {
    ASSIGN_OR_RETURN(const api::StorageClass translated,
                     TranslateForDriver(*storage_class, *driver_.info()));
    ASSIGN_OR_RETURN(
        const ClassParameters parameters,
        ClassParameters::ParseSecret(translated.parameters(), SecretUse::kProvisioner));
    return parameters.Secret(SecretUse::kProvisioner, volume.name(), claim);
  }();
  RETURN_IF_ERROR_WITH(secret, fmt::format("StorageClass '{}'", storage_class->name()));
  return *secret;
}

Status VolumeDeletion::CallDriver(const Volume& csi_volume, VolumeOrigin origin) {
  ASSIGN_OR_RETURN(const api::SecretReference reference, FindSecret(csi_volume));
  const auto secrets = ReadSecret(context_.client, reference);
  csi::v1::DeleteVolumeRequest request;
  request.set_volume_id(csi_volume.csi().volume_handle());
  if (secrets.ok()) {
    CopyTo(*secrets, request.mutable_secrets());
  } else if (secrets.status().code() == StatusCode::kNotFound ||
             secrets.status().code() == StatusCode::kPermissionDenied) {
    // The driver decides whether it can delete the volume without the secret, as with the Go
    // program. Otherwise the volume could never be deleted.
    LOG_WARNING("volume {} is deleted without its secret: {}", base::Quote(csi_volume.name()),
                base::Message(secrets.status()));
  } else {
    return secrets.status();
  }
  const Status deleted =
      driver_.Call(&rpc::CsiClient::DeleteVolume, request, timeout_, origin).status();
  if (!deleted.ok()) return OfDriver(deleted);
  LOG_INFO("volume {} of PersistentVolume {} is deleted", base::Quote(request.volume_id()),
           base::Quote(csi_volume.name()));
  return base::OkStatus();
}

Status VolumeDeletion::DestroyInDriver(const Volume& volume) {
  RETURN_IF_ERROR(CheckDetached(*driver_.info()));
  ASSIGN_OR_RETURN(const Volume csi_volume, api::migration::AsCsiVolume(volume));
  RETURN_IF_ERROR(CheckAlone(csi_volume));
  {
    base::MutexLock lock(mutex_);
    const auto it = destroyed_.find(volume.name());
    if (it != destroyed_.end() && it->second == volume.uid()) return base::OkStatus();
  }
  RETURN_IF_ERROR(CallDriver(csi_volume, OriginIf(!volume.has_csi())));
  handles_.ReleaseVolume(volume);
  base::MutexLock lock(mutex_);
  destroyed_[volume.name()] = volume.uid();
  return base::OkStatus();
}

Status VolumeDeletion::FreeObject(const Volume& volume) {
  Volume freed = volume;
  freed.remove_finalizer(kVolumeFinalizer);
  // An attachment may have come during the call of the driver: then the attacher needs the object.
  // A driver that does not attach may have done so when the object was made.
  if (attachments_.ByIndex(kAttachmentsByVolume, volume.name()).empty()) {
    freed.remove_finalizer(AttacherFinalizer(driver_.info()->name));
  }
  if (freed.finalizers() == volume.finalizers()) return base::OkStatus();
  return PatchAt(context_.client, volumes_, volume, FinalizersPatch(freed, "", "")).status();
}

VolumeDeletion::Outcome VolumeDeletion::ReportLeftObject(const Volume& volume,
                                                         const Status& written) {
  if (!written.ok() && !IsOfApi(written) && written.code() != StatusCode::kNotFound) {
    context_.events.Record(volume.reference(), base::EventType::kWarning, "VolumeFailedDelete",
                           fmt::format("the volume is deleted, its PersistentVolume is not: {}",
                                       FailureText(written)));
  }
  return AfterApi(written);
}

VolumeDeletion::Outcome VolumeDeletion::ReportAttached(const Volume& volume,
                                                       const api::VolumeAttachment& attachment) {
  CountDeleteFailed(context_.metrics, volume);
  context_.events.Record(volume.reference(), base::EventType::kWarning, "VolumeFailedDelete",
                         fmt::format("persistentvolume {} is still attached to node {}",
                                     volume.name(), attachment.node_name()));
  return Outcome::Done();
}

VolumeDeletion::Outcome VolumeDeletion::DeleteVolume(const Volume& volume) {
  const auto began = std::chrono::steady_clock::now();
  const Status destroyed = DestroyInDriver(volume);
  if (IsOfApi(destroyed)) return AfterApi(destroyed);
  if (!destroyed.ok()) {
    CountDeleteFailed(context_.metrics, volume);
    context_.events.Record(volume.reference(), base::EventType::kWarning, "VolumeFailedDelete",
                           FailureText(destroyed));
    return Outcome::Retry(destroyed);
  }
  if (const Status freed = FreeObject(volume); !freed.ok()) return ReportLeftObject(volume, freed);
  if (!volume.deleting()) {
    if (const Status deleted = kube::Delete(context_.client, volume); !deleted.ok()) {
      return ReportLeftObject(volume, deleted);
    }
  }
  bool counted = false;  // a finalizer that was written back brings a deleted volume here again
  {
    base::MutexLock lock(mutex_);
    counted = std::exchange(deleted_[volume.name()], volume.uid()) == volume.uid();
  }
  if (!counted) CountDeleted(context_.metrics, volume, began);
  return Outcome::Done();
}

}  // namespace berth::controllers::provisioner
