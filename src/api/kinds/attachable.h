// The attacher of a volume, and the names of the volume at the attacher and on its nodes. A CSI
// volume has its driver's attacher; a Flexvolume volume has the controller that calls its driver.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"

namespace berth::api {

struct Attachable {
  std::string attacher;     // VolumeAttachment.spec.attacher
  std::string handle;       // the attacher's name for the volume; a part of AttachmentName
  std::string unique_name;  // in Node.status.volumesInUse and volumesAttached

  // The name of its VolumeAttachment (csi_names.h).
  std::string AttachmentName(const NodeName& node) const;
};

// The attacher of all volumes of Flexvolume drivers. A driver's own name cannot be an attacher's,
// because it contains a '/'.
inline constexpr std::string_view kFlexAttacher = "flexvolume.berth.dev";

// The key in VolumeAttachment.status.attachmentMetadata under which that attacher writes the path
// of the device on the node.
inline constexpr std::string_view kDevicePath = "devicePath";

// "flexvolume-vendor/driver/NAME", as Kubernetes' controllers write it; NAME is the
// PersistentVolume's.
std::string UniqueFlexName(std::string_view driver, const VolumeName& volume);

// The Flexvolume driver of a volume; empty: the volume has none.
std::string FlexDriverOf(const PersistentVolume& volume);

// nullopt: the volume is neither a CSI nor a Flexvolume volume, so nothing attaches it. Some
// drivers need no attach; only the driver knows.
std::optional<Attachable> AttachableOf(const PersistentVolume& volume);

// The same from an entry of Node.status.volumesInUse or volumesAttached, for a volume whose object
// is gone. nullopt: it is not such a name.
std::optional<Attachable> ParseUniqueName(std::string_view unique_name);

}  // namespace berth::api
