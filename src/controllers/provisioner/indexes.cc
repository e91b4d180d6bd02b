#include "controllers/provisioner/indexes.h"

#include "controllers/claims.h"
#include "controllers/data_source.h"
#include "controllers/names.h"
#include "controllers/provisioner/volume_deletion.h"

namespace berth::controllers::provisioner {

using Keys = std::vector<std::string>;

bool IsOpen(const api::PersistentVolumeClaim& claim) {
  return !IsBound(claim) || claim.has_finalizer(kProvisioningFinalizer);
}

void AddProvisionerIndexes(kube::Informer<api::PersistentVolumeClaim>& claims) {
  using Claim = api::PersistentVolumeClaim;
  claims.AddIndex(kOpenClaims,
                  [](const Claim& claim) { return IsOpen(claim) ? Keys{claim.key()} : Keys{}; });
  claims.AddIndex(kOpenClaimsByProvisioner, [](const Claim& claim) {
    if (!IsOpen(claim)) return Keys{};
    return Keys{claim.annotation(kStorageProvisioner), claim.annotation(kBetaStorageProvisioner)};
  });
  const auto by_source = [](std::string (*name_of)(const Claim&)) {
    return [name_of](const Claim& claim) {
      const std::string source = name_of(claim);
      if (source.empty() || IsBound(claim)) return Keys{};
      return Keys{api::ObjectKey(claim.ns(), source)};
    };
  };
  claims.AddIndex(kClaimsBySource, by_source(&CloneSourceName));
  claims.AddIndex(kClaimsBySnapshot, by_source(&SnapshotSourceName));
}

void AddProvisionerIndexes(kube::Informer<api::PersistentVolume>& volumes) {
  using Volume = api::PersistentVolume;
  volumes.AddIndex(kVolumesToSync, [](const Volume& volume) {
    if (IsSettled(volume)) return Keys{};
    return OwnersOf(volume);
  });
  volumes.AddIndex(kVolumesByHandle, [](const Volume& volume) {
    if (!volume.has_csi()) return Keys{};
    return Keys{HandleKey(volume.csi().driver(), api::VolumeHandle(volume.csi().volume_handle()))};
  });
}

}  // namespace berth::controllers::provisioner
