// To which PersistentVolume each volume of the driver belongs. Two claims must never get one
// volume, not even by an error of a driver or a person.
//
// An index of the PersistentVolumes finds the objects that the API has. This memory covers the time
// between the driver's answer and the moment when the copy shows the object. Then it forgets the
// handle, because a process lives long, and makes many volumes.
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
  // To be called with each new state of a PersistentVolume that the copy shows.
  void NoteShown(const api::PersistentVolume& volume) ABSL_LOCKS_EXCLUDED(mutex_);
  // To be called when the driver has no such volume any more.
  void ReleaseHandle(const api::VolumeHandle& handle) ABSL_LOCKS_EXCLUDED(mutex_);
  // To be called when the driver has deleted the PersistentVolume's volume, or the object is gone.
  void ReleaseVolume(const api::PersistentVolume& volume) ABSL_LOCKS_EXCLUDED(mutex_);

  // How many handles are remembered here.
  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Given {
    api::VolumeName volume;
    std::string driver;
  };

  const kube::Informer<api::PersistentVolume>& volumes_;
  mutable base::Mutex mutex_;
  // The handles from CreateVolume, for volumes that the index does not show.
  std::map<api::VolumeHandle, Given> given_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::controllers::provisioner
