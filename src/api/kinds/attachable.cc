#include "api/kinds/attachable.h"

#include "api/kinds/csi_names.h"

namespace berth::api {
namespace {

constexpr std::string_view kFlexPrefix = "flexvolume-";

}  // namespace

std::string Attachable::AttachmentName(const NodeName& node) const {
  return VolumeAttachmentName(VolumeHandle(handle), attacher, node);
}

std::string UniqueFlexName(std::string_view driver, const VolumeName& volume) {
  return fmt::format("{}{}/{}", kFlexPrefix, driver, volume.text());
}

std::string FlexDriverOf(const PersistentVolume& volume) {
  return volume.String({"spec", "flexVolume", "driver"});
}

std::optional<Attachable> AttachableOf(const PersistentVolume& volume) {
  if (volume.has_csi()) {
    const CsiSource csi = volume.csi();
    return Attachable{
        .attacher = csi.driver(),
        .handle = csi.volume_handle(),
        .unique_name = UniqueVolumeName(csi.driver(), VolumeHandle(csi.volume_handle()))};
  }
  const std::string driver = FlexDriverOf(volume);
  if (driver.empty()) return std::nullopt;
  return ParseUniqueName(UniqueFlexName(driver, VolumeName(volume.name())));
}

std::optional<Attachable> ParseUniqueName(std::string_view unique_name) {
  if (const auto csi = ParseUniqueVolumeName(unique_name)) {
    return Attachable{.attacher = csi->driver,
                      .handle = csi->volume_handle,
                      .unique_name = std::string(unique_name)};
  }
  if (!unique_name.starts_with(kFlexPrefix)) return std::nullopt;
  return Attachable{.attacher = std::string(kFlexAttacher),
                    .handle = std::string(unique_name.substr(kFlexPrefix.size())),
                    .unique_name = std::string(unique_name)};
}

}  // namespace berth::api
