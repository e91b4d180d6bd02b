// Who attaches a volume to nodes, and what it is called by those who have a part in that: a CSI
// driver's attacher, or for a Flexvolume driver the controller that calls it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"

namespace berth::api {

struct Attachable {
  std::string attacher;     // VolumeAttachment.spec.attacher
  std::string handle;       // by which the attacher knows it; in the VolumeAttachment's name
  std::string unique_name;  // in Node.status.volumesInUse and volumesAttached

  // Of its VolumeAttachment (csi_names.h).
  std::string AttachmentName(std::string_view node) const;
};

// The attacher of all Flexvolume drivers, whose names cannot be attachers' (they hold a '/').
inline constexpr std::string_view kFlexAttacher = "flexvolume.berth.dev";

// In VolumeAttachment.status.attachmentMetadata, of that attacher: the device on the node.
inline constexpr std::string_view kDevicePath = "devicePath";

// "flexvolume-vendor/driver/NAME", as Kubernetes' controllers write it; NAME is the
// PersistentVolume's.
std::string UniqueFlexName(std::string_view driver, std::string_view volume);

// The Flexvolume driver of a volume; empty: it is another's.
std::string FlexDriverOf(const PersistentVolume& volume);

// nullopt for volumes that no attacher of these kinds could have. Whether one attaches it, its
// driver says.
std::optional<Attachable> AttachableOf(const PersistentVolume& volume);

// The same from an entry of a node's lists, for a volume whose object is gone.
std::optional<Attachable> ParseUniqueName(std::string_view unique_name);

}  // namespace berth::api
