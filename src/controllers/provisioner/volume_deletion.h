// Deletes volumes through the driver: those that are Released, with policy Delete, of this driver,
// and, if it attaches, named by no VolumeAttachment. A volume that a person made for the driver is
// deleted, too.
//
//   [Released] ── DeleteVolume ──▶ finalizer off ──▶ PersistentVolume deleted
//        ▲  │
//        └──┘ failure: event VolumeFailedDelete, again after the backoff
//
// It also puts the finalizer on Bound volumes that are to be deleted with their claim, so that the
// object stays as long as the volume does, and removes it if the reclaim policy changes.
//
// A volume of the in-tree plugin that the driver replaces is translated for the driver
// (api/migration).
//
// Thread-safe, for different keys; one key is not synced twice at a time. What the constructor
// takes is borrowed and outlives this object. After a DeleteVolume that failed the volume may exist
// or not: the call is repeated until the driver says that the volume is gone.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"
#include "controllers/provisioner/node_reach.h"
#include "controllers/provisioner/volume_handles.h"

namespace berth::controllers::provisioner {

// Whether the volume has a CSI source, or one that is translated to it.
bool MayBeDrivers(const api::PersistentVolume& volume);

// Whether SyncVolume has nothing to do for a PersistentVolume, whichever driver made it.
bool IsSettled(const api::PersistentVolume& volume);

// The drivers whose provisioner deletes the volume: the one that provisioned it, or that replaces
// the in-tree plugin that did, or the one of its CSI source if nobody did; and the one that it was
// migrated to. Names can be "".
std::vector<std::string> OwnersOf(const api::PersistentVolume& volume);

class VolumeDeletion {
 public:
  using Outcome = base::KeyedWorkers::Outcome;
  using Volume = api::PersistentVolume;

  // `timeout` is of each RPC.
  VolumeDeletion(const Context& context, DriverConnection& driver,
                 std::chrono::milliseconds timeout, VolumeHandles& handles, const NodeReach& reach);

  // Does the next step for the PersistentVolume `key`.
  Outcome SyncVolume(const std::string& key) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  base::Status SyncFinalizer(const Volume& volume);
  Outcome DeleteVolume(const Volume& volume) ABSL_LOCKS_EXCLUDED(mutex_);
  base::Status DestroyInDriver(const Volume& volume) ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls DeleteVolume for a volume with a CSI source.
  base::Status CallDriver(const Volume& csi_volume, VolumeOrigin origin);
  // Gives the secret for DeleteVolume: the one that the volume's annotations name or, without them,
  // the one of its class. Empty: there is none. INVALID_ARGUMENT: the class's templates are wrong,
  // or it cannot be translated.
  base::StatusOr<api::SecretReference> FindSecret(const Volume& volume) const;
  // FAILED_PRECONDITION: it is not known which nodes use volumes of the driver.
  base::Status CheckDetached(const DriverInfo& driver) const;
  // FAILED_PRECONDITION: another PersistentVolume that is wanted stands for the same volume.
  base::Status CheckAlone(const Volume& volume) const;
  // Removes the provisioner's finalizer from the object of a volume that the driver has deleted.
  // The attacher's goes with the same write if no attachment names the volume, so that the attacher
  // need not write the object as well.
  base::Status FreeObject(const Volume& volume);
  // Reports that the volume is not deleted yet, in the Go provisioner's words.
  Outcome ReportAttached(const Volume& volume, const api::VolumeAttachment& attachment);
  // Reports that the driver has deleted the volume, but its object is left. `written` is the
  // failure of the write.
  Outcome ReportLeftObject(const Volume& volume, const base::Status& written);

  const Context context_;
  DriverConnection& driver_;
  const std::chrono::milliseconds timeout_;
  VolumeHandles& handles_;
  const NodeReach& reach_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::StorageClass>& classes_;
  kube::Informer<api::VolumeAttachment>& attachments_;
  base::Mutex mutex_;
  // Volumes that the driver has deleted, until their object has lost the finalizer: name to uid.
  std::map<std::string, std::string> destroyed_ ABSL_GUARDED_BY(mutex_);
  // Volumes whose object was freed and deleted, until the copy lacks it, too: name to uid.
  std::map<std::string, std::string> deleted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::controllers::provisioner
