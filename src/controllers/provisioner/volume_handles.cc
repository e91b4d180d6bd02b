#include "controllers/provisioner/volume_handles.h"

#include "controllers/provisioner/indexes.h"

namespace berth::controllers::provisioner {

using base::MutexLock;

std::string VolumeHandles::AssignHandle(const std::string& handle, const std::string& driver,
                                        const std::string& volume_name) {
  if (handle.empty()) return "";
  for (const auto& volume : volumes_.ByIndex(kVolumesByHandle, HandleKey(driver, handle))) {
    if (volume->name() != volume_name) return volume->name();
  }
  // A volume that another worker got a moment ago has no object yet, or the copy does not show it.
  MutexLock lock(mutex_);
  const auto [it, assigned] = given_.try_emplace(handle, volume_name);
  return it->second == volume_name ? "" : it->second;
}

void VolumeHandles::ReleaseHandle(const std::string& handle) {
  MutexLock lock(mutex_);
  given_.erase(handle);
}

}  // namespace berth::controllers::provisioner
