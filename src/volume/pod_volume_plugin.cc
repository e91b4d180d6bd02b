#include "volume/pod_volume_plugin.h"

#include "volume/found_volumes.h"

namespace berth::volume {

bool PodVolumePlugin::Supports(const VolumeSpec& spec) const {
  if (spec.pv == nullptr) return spec.pod_volume.source_type() == source_type_;
  return !spec.block() && base::json::Find(spec.pv->json(), {"spec", source_type_}) != nullptr;
}

const Json& PodVolumePlugin::Source(const VolumeSpec& spec) const {
  if (spec.pv != nullptr) return base::json::Map(spec.pv->json(), {"spec", source_type_});
  return base::json::Map(spec.pod_volume.json(), {source_type_});
}

StatusOr<std::optional<std::string>> PodVolumePlugin::DeviceName(const VolumeSpec&) const {
  return std::optional<std::string>();
}

StatusOr<bool> PodVolumePlugin::NeedsAttach(const VolumeSpec&) const { return false; }

StatusOr<Json> PodVolumePlugin::DeviceState(const VolumeSpec&) const { return Json::object(); }

StatusOr<Json> PodVolumePlugin::PodState(const api::Pod&, const VolumeSpec&) const {
  return Json::object();
}

Status PodVolumePlugin::MountDevice(const api::Pod&, const VolumeSpec&, const api::Labels&) {
  return base::OkStatus();
}

Status PodVolumePlugin::UnmountDevice(const DeviceRecord&) { return base::OkStatus(); }

StatusOr<VolumePlugin::Found> PodVolumePlugin::FindOnNode() const {
  Found found;
  ASSIGN_OR_RETURN(found.pod_volumes, FindPodFolders(host_.paths(), name_));
  return found;
}

Status PodVolumePlugin::Expand(const PodVolumeRecord&, const VolumeSpec&, int64_t) {
  return base::Error(base::StatusCode::kUnimplemented, "volumes of {} do not grow", name_);
}

}  // namespace berth::volume
