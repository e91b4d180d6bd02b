// The names that Kubernetes derives for CSI volumes. Drivers, other controllers and records on disk
// depend on them to the byte. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/kinds/object_ids.h"
#include "base/status.h"

namespace berth::api {

// The provisioner of classes without dynamic provisioning: people create their volumes.
inline constexpr std::string_view kNoProvisioner = "kubernetes.io/no-provisioner";

// "csi-" and the SHA-256 of handle, driver and node, written one after the other.
std::string VolumeAttachmentName(const VolumeHandle& handle, std::string_view driver,
                                 const NodeName& node);

// "kubernetes.io/csi/<driver>^<handle>": the entries of Node.status.volumesInUse and
// volumesAttached.
std::string UniqueVolumeName(std::string_view driver, const VolumeHandle& handle);

struct UniqueVolume {
  std::string driver;
  std::string volume_handle;
};
// nullopt: `name` is not such a name. The first '^' ends the driver's name, because a handle may
// contain '^' but a driver's name cannot.
std::optional<UniqueVolume> ParseUniqueVolumeName(std::string_view name);

// The handle of an inline (ephemeral) volume: "csi-" and the SHA-256 of pod UID and volume name.
std::string InlineVolumeHandle(const PodUid& pod, const VolumeName& volume);

// CSI, GetPluginInfo: a domain name of at most 63 letters, digits, '-' and '.', whose parts begin
// and end with a letter or digit. Every receiver of a driver's name checks it, because the name
// becomes a part of paths and of objects' names. INVALID_ARGUMENT: the name is not valid, and why.
base::Status CheckCsiDriverName(std::string_view name);
bool IsCsiDriverName(std::string_view name);

}  // namespace berth::api
