// To which PersistentVolume each volume of the driver belongs. Two claims must never get one
// volume, not even by an error of a driver or a person.
//
// An index of the PersistentVolumes finds the objects that the API has. This memory covers the time
// between the driver's answer and the moment when the copy shows the object.
//
// Thread-safe. The informer is borrowed and outlives this object. Nothing here fails.
#pragma once

#include <map>
#include <string>

#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"
#include "base/mutex.h"
#include "kube/informers/informer.h"

namespace berth::controllers::provisioner {

class VolumeHandles {
 public:
  // `volumes` has the index kVolumesByHandle (indexes.h).
  explicit VolumeHandles(const kube::Informer<api::PersistentVolume>& volumes)
      : volumes_(volumes) {}

  // Gives the volume `handle` of `driver` to the PersistentVolume `volume`. Returns "" if that one
  // has it now; else the name of the PersistentVolume that has it already. An empty handle never
  // belongs to a PersistentVolume.
  std::string AssignHandle(const api::VolumeHandle& handle, const std::string& driver,
                           const api::VolumeName& volume) ABSL_LOCKS_EXCLUDED(mutex_);
  // To be called when the driver has no such volume any more.
  void ReleaseHandle(const api::VolumeHandle& handle) ABSL_LOCKS_EXCLUDED(mutex_);
  // To be called when the driver has deleted the PersistentVolume's volume, or the object is gone.
  void ReleaseVolume(const api::PersistentVolume& volume) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const kube::Informer<api::PersistentVolume>& volumes_;
  base::Mutex mutex_;
  // The handles from CreateVolume, for volumes whose objects this process has not deleted: handle
  // to name.
  std::map<api::VolumeHandle, api::VolumeName> given_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::controllers::provisioner
