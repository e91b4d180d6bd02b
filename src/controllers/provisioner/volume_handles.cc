#include "controllers/provisioner/volume_handles.h"

#include "controllers/provisioner/indexes.h"

namespace berth::controllers::provisioner {

using base::MutexLock;

std::string VolumeHandles::AssignHandle(const api::VolumeHandle& handle, const std::string& driver,
                                        const api::VolumeName& volume) {
  if (handle.empty()) return "";
  for (const auto& object : volumes_.ByIndex(kVolumesByHandle, HandleKey(driver, handle))) {
    if (object->name() != volume.text()) return object->name();
  }
  // A volume that another worker got a moment ago has no object yet, or the copy does not show it.
  MutexLock lock(mutex_);
  const auto [it, assigned] = given_.try_emplace(handle, volume);
  return it->second == volume ? "" : it->second.text();
}

void VolumeHandles::ReleaseHandle(const api::VolumeHandle& handle) {
  MutexLock lock(mutex_);
  given_.erase(handle);
}

void VolumeHandles::ReleaseVolume(const api::PersistentVolume& volume) {
  if (volume.has_csi()) return ReleaseHandle(api::VolumeHandle(volume.csi().volume_handle()));
  // The source of an in-tree plugin need not have the handle that the driver gave.
  const api::VolumeName name(volume.name());
  MutexLock lock(mutex_);
  std::erase_if(given_, [&](const auto& given) { return given.second == name; });
}

}  // namespace berth::controllers::provisioner
