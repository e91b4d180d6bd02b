#include "controllers/provisioner/volume_handles.h"

#include "controllers/provisioner/indexes.h"

namespace berth::controllers::provisioner {

using base::MutexLock;

std::string VolumeHandles::AssignHandle(const api::VolumeHandle& handle, const std::string& driver,
                                        const api::VolumeName& volume) {
  if (handle.empty()) return "";
  // The lock is held while the index is read, so that no handle leaves given_ (NoteShown) after the
  // index was read without its object, and before given_ is.
  MutexLock lock(mutex_);
  bool shown = false;
  for (const auto& object : volumes_.ByIndex(kVolumesByHandle, HandleKey(driver, handle))) {
    if (object->name() != volume.text()) return object->name();
    shown = true;
  }
  // A volume that another worker got a moment ago has no object yet, or the copy does not show it.
  const auto it = given_.find(handle);
  if (it != given_.end() && it->second.volume != volume) return it->second.volume.text();
  if (it == given_.end() && !shown) given_.emplace(handle, Given{volume, driver});
  return "";
}

void VolumeHandles::NoteShown(const api::PersistentVolume& volume) {
  // The source of an in-tree plugin need not have the handle that the driver gave, so that the
  // index does not show the handle. It stays in given_ until ReleaseVolume.
  if (!volume.has_csi()) return;
  MutexLock lock(mutex_);
  if (given_.empty()) return;  // as for all volumes of the first list
  const api::CsiSource source = volume.csi();
  const auto it = given_.find(api::VolumeHandle(source.volume_handle()));
  if (it != given_.end() && it->second.volume.text() == volume.name() &&
      it->second.driver == source.driver()) {
    given_.erase(it);
  }
}

void VolumeHandles::ReleaseHandle(const api::VolumeHandle& handle) {
  MutexLock lock(mutex_);
  given_.erase(handle);
}

void VolumeHandles::ReleaseVolume(const api::PersistentVolume& volume) {
  if (volume.has_csi()) return ReleaseHandle(api::VolumeHandle(volume.csi().volume_handle()));
  const api::VolumeName name(volume.name());
  MutexLock lock(mutex_);
  std::erase_if(given_, [&](const auto& given) { return given.second.volume == name; });
}

size_t VolumeHandles::size() const {
  MutexLock lock(mutex_);
  return given_.size();
}

}  // namespace berth::controllers::provisioner
