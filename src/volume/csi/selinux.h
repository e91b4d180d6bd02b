// Computes the SELinux label of a volume's files. Either the volume is mounted with a context, so
// that no file has to be relabelled (CSIDriver.spec.seLinuxMount; kubelet: SELinuxMount), or each
// file gets the label. No I/O.
#pragma once

#include <string>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "volume/volume_plugin.h"

namespace berth::volume::csi_volume {

// "USER:object_r:container_file_t:LEVEL", for mount option context=, from the seLinuxOptions of the
// containers that use the volume, or of the pod; without a user "system_u".
//
// Empty if the volume must not be mounted with a context: the pod asks for that
// (seLinuxChangePolicy Recursive), or names no level, so that the container runtime chooses one
// that is not known yet.
// FAILED_PRECONDITION: two containers of the pod use the volume with different labels.
StatusOr<std::string> FindMountContext(const api::Pod& pod, const VolumeSpec& spec);

// Whether the pod, or a container that uses the volume, states anything about its SELinux label.
bool NamesLabel(const api::Pod& pod, const VolumeSpec& spec);

// The label for each file of the volume, whatever the pod's seLinuxChangePolicy is. Empty: only the
// container runtime knows it, because no level is named, or several are.
std::string FindFileLabel(const api::Pod& pod, const VolumeSpec& spec);

}  // namespace berth::volume::csi_volume
