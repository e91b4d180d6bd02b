// The subPaths of a pod's volumes (pods/pod_volumes.h) under a kubelet, which does not know that
// the host does not mount the volume. It makes the folder of a subPath in the volume's placeholder
// (pods/placeholder.h), and mounts this folder (a bind mount) where the container's mount has its
// source:
//
//   <kubelet>/pods/<uid>/volumes/<plugin>/<name>/mount                          the target path
//   <kubelet>/pods/<uid>/volume-subpaths/<name>/<container's name>/<index>      the bind mount
//
// The mount table says which folder of the placeholder was mounted there, and the container gets
// what has the same path in the volume.
//
// The functions are pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "platform/mounts/mounter.h"

namespace berth::crust {

// Returns the folder in which the kubelet mounts the subPaths of the volume at `target`; "": the
// target path does not have the form above.
std::string SubPathFolder(std::string_view target, std::string_view kubelet_folder);

// Returns the path in the volume that the bind mount at `bound` leads to; "" is the volume itself.
// Both paths are without symlinks. FAILED_PRECONDITION: it is not a mount of a folder in the
// placeholder at `target`, or the folder was deleted; so it is not known which path is meant.
base::StatusOr<std::string> FindSubPath(const std::vector<platform::MountEntry>& table,
                                        std::string_view target, std::string_view bound);

}  // namespace berth::crust
