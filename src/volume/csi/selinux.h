// The SELinux context that a volume is mounted with, so that nobody has to relabel its files one by
// one (CSIDriver.spec.seLinuxMount; kubelet: SELinuxMount). Pure.
#pragma once

#include <string>

#include "api/kinds.h"
#include "base/status.h"
#include "volume/volume_plugin.h"

namespace berth::volume::csi_volume {

// "USER:object_r:container_file_t:LEVEL", for mount option context=, from the seLinuxOptions of the
// containers that use the volume, or of the pod; without a user "system_u".
//
// Empty where the files keep their own labels: the pod asks for that (seLinuxChangePolicy
// Recursive), or names no level, so that the container runtime chooses one that nobody knows yet.
// FAILED_PRECONDITION: two containers of the pod use the volume with different labels.
StatusOr<std::string> MountContext(const api::Pod& pod, const VolumeSpec& spec);

}  // namespace berth::volume::csi_volume
