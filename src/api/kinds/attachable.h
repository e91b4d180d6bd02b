// Tells who attaches a volume to nodes, and under which names the volume is known there. The
// attacher is a CSI driver's or, for a Flexvolume driver, the controller that calls it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"

namespace berth::api {

struct Attachable {
  std::string attacher;     // VolumeAttachment.spec.attacher
  std::string handle;       // the attacher's name for it; in the VolumeAttachment's name
  std::string unique_name;  // in Node.status.volumesInUse and volumesAttached

  // The name of its VolumeAttachment (csi_names.h).
  std::string AttachmentName(const NodeName& node) const;
};

// The attacher of all Flexvolume drivers. Their own names cannot be names of attachers, because
// they hold a '/'.
inline constexpr std::string_view kFlexAttacher = "flexvolume.berth.dev";

// A key in VolumeAttachment.status.attachmentMetadata, written by that attacher: the device on the
// node.
inline constexpr std::string_view kDevicePath = "devicePath";

// "flexvolume-vendor/driver/NAME", as Kubernetes' controllers write it; NAME is the
// PersistentVolume's.
std::string UniqueFlexName(std::string_view driver, const VolumeName& volume);

// The Flexvolume driver of a volume; empty: the volume has none.
std::string FlexDriverOf(const PersistentVolume& volume);

// nullopt for a volume that no such attacher could attach. Whether its driver does attach, only the
// driver can tell.
std::optional<Attachable> AttachableOf(const PersistentVolume& volume);

// The same from an entry of a node's lists, for a volume whose object is gone.
std::optional<Attachable> ParseUniqueName(std::string_view unique_name);

}  // namespace berth::api
