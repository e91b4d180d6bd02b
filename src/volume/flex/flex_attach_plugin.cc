#include "volume/flex/flex_attach_plugin.h"

#include "api/kinds/attachable.h"
#include "volume/flex/driver_options.h"

namespace berth::volume {
namespace {

Status OnNodes() {
  return base::Error(base::StatusCode::kUnimplemented, "volumes are mounted by node agents");
}

}  // namespace

bool FlexAttachPlugin::Supports(const VolumeSpec& spec) const {
  return spec.pv != nullptr && api::FlexDriverOf(*spec.pv) == name_;
}

StatusOr<std::optional<std::string>> FlexAttachPlugin::DeviceName(const VolumeSpec& spec) const {
  return std::optional(api::UniqueFlexName(name_, api::VolumeName(spec.folder_name())));
}

StatusOr<Json> FlexAttachPlugin::DeviceState(const VolumeSpec&) const { return OnNodes(); }
StatusOr<Json> FlexAttachPlugin::PodState(const api::Pod&, const VolumeSpec&) const {
  return OnNodes();
}
Status FlexAttachPlugin::MountDevice(const api::Pod&, const VolumeSpec&, const api::Labels&) {
  return OnNodes();
}
Status FlexAttachPlugin::UnmountDevice(const DeviceRecord&) { return OnNodes(); }
StatusOr<Published> FlexAttachPlugin::SetUp(const api::Pod&, const VolumeSpec&,
                                            const api::Labels&) {
  return OnNodes();
}
Status FlexAttachPlugin::TearDown(const PodVolumeRecord&) { return OnNodes(); }
Status FlexAttachPlugin::Expand(const PodVolumeRecord&, const VolumeSpec&, int64_t) {
  return OnNodes();
}
StatusOr<VolumePlugin::Stats> FlexAttachPlugin::GetStats(const PodVolumeRecord&) {
  return OnNodes();
}

}  // namespace berth::volume
