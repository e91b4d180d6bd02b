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

}  // namespace berth::controllers::provisioner
