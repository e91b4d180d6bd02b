// The SELinux label of a volume's files: the context that the volume is mounted with, so that
// nobody has to relabel them one by one (CSIDriver.spec.seLinuxMount; kubelet: SELinuxMount), or
// what each of them is to get. Pure.
#pragma once

#include <string>

#include "api/kinds/kinds.h"
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

// Whether the pod, or a container that uses the volume, says anything of its SELinux label.
bool NamesLabel(const api::Pod& pod, const VolumeSpec& spec);

// What each file of the volume is to be labelled with, whatever the pod's seLinuxChangePolicy says;
// empty: only the container runtime knows, since no level is named, or several are.
std::string FileLabelFor(const api::Pod& pod, const VolumeSpec& spec);

}  // namespace berth::volume::csi_volume
