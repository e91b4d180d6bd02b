// The indexes by which the provisioner finds the few claims and volumes that need its work among
// many thousands. The functions are thread-safe, and nothing here fails.
#pragma once

#include <string>

#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"
#include "kube/informers/informer.h"

namespace berth::controllers::provisioner {

// Index: a claim's own key → the claim, if it is open (IsOpen).
inline constexpr char kOpenClaims[] = "open";
// Index: provisioner → the open claims that ask for it, by one of their annotations.
inline constexpr char kOpenClaimsByProvisioner[] = "provisioner";
// Subset: claims that are, or are to be, a copy of another claim.
inline constexpr char kCopies[] = "copies";
// Subset: claims that are being deleted and wait for their release as a source of copies.
inline constexpr char kDeletedSources[] = "deletedSources";
// Index: "namespace/source" → unbound claims that are to be a copy of that claim.
inline constexpr char kClaimsBySource[] = "cloneSource";
// Index: "namespace/snapshot" → unbound claims that are to be filled from that snapshot.
inline constexpr char kClaimsBySnapshot[] = "snapshotSource";
// Index: driver → the volumes made by it that are not settled (volume_deletion.h).
inline constexpr char kVolumesToSync[] = "toSync";
// Index: a driver's volume (HandleKey) → the PersistentVolumes that stand for it.
inline constexpr char kVolumesByHandle[] = "handle";
inline std::string HandleKey(const std::string& driver, const api::VolumeHandle& handle) {
  return driver + "/" + handle.text();
}

// Whether the provisioner could have work for the claim: it is not bound, or it still has the
// provisioner's finalizer.
bool IsOpen(const api::PersistentVolumeClaim& claim);

// On a claim while another claim's volume is made as a copy of its volume, and with Go's program
// until the claim is deleted.
inline constexpr std::string_view kCloningProtection =
    "provisioner.storage.kubernetes.io/cloning-protection";
// Whether the claim is in kDeletedSources.
bool IsDeletedSource(const api::PersistentVolumeClaim& claim);

void AddProvisionerIndexes(kube::Informer<api::PersistentVolumeClaim>& claims);
void AddProvisionerIndexes(kube::Informer<api::PersistentVolume>& volumes);

}  // namespace berth::controllers::provisioner
