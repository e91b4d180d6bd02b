#include "controllers/provisioner/indexes.h"

#include "api/migration/translation.h"
#include "controllers/claims.h"
#include "controllers/data_source.h"
#include "controllers/provisioner/volume_deletion.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::provisioner {

using Keys = std::vector<std::string>;

namespace {

Keys KeysOfSource(const api::CsiSource& csi) {
  return {HandleKey(csi.driver(), api::VolumeHandle(csi.volume_handle()))};
}

}  // namespace

bool IsOpen(const api::PersistentVolumeClaim& claim) {
  return !IsBound(claim) || claim.has_finalizer(kProvisioningFinalizer);
}

bool IsDeletedSource(const api::PersistentVolumeClaim& claim) {
  return claim.deleting() && claim.has_finalizer(kCloningProtection);
}

void AddProvisionerIndexes(kube::Informer<api::PersistentVolumeClaim>& claims) {
  using Claim = api::PersistentVolumeClaim;
  claims.AddIndex(kOpenClaims,
                  [](const Claim& claim) { return IsOpen(claim) ? Keys{claim.key()} : Keys{}; });
  claims.AddIndex(kOpenClaimsByProvisioner, [](const Claim& claim) {
    if (!IsOpen(claim)) return Keys{};
    return Keys{claim.annotation(kStorageProvisioner), claim.annotation(kBetaStorageProvisioner),
                claim.annotation(kMigratedTo)};
  });
  claims.AddSubset(kCopies, [](const Claim& claim) { return !CloneSourceName(claim).empty(); });
  claims.AddSubset(kDeletedSources, &IsDeletedSource);
  const auto by_source = [](std::string (*name_of)(const Claim&)) {
    return [name_of](const Claim& claim) {
      const std::string source = name_of(claim);
      if (source.empty() || IsBound(claim)) return Keys{};
      return Keys{api::ObjectKey(DataSourceNamespace(claim), source)};
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
    if (volume.has_csi()) return KeysOfSource(volume.csi());
    if (!api::migration::IsMigratable(volume)) return Keys{};
    const auto translated = api::migration::TranslateToCsi(volume);
    return translated.ok() ? KeysOfSource(translated->csi()) : Keys{};
  });
}

}  // namespace berth::controllers::provisioner
