// Removes the empty folders that containerd leaves at the target path of a deferred volume. The
// volume is not mounted there on the host, but containerd makes the source of each mount if it is
// missing, such as a container's subPath.
#pragma once

#include <string>

#include "base/status.h"

namespace berth::crust {

// Removes the folders below `target` that contain nothing but empty folders. Never removes a mount,
// a file, or `target` itself. Does not follow symlinks. OK if `target` does not exist.
base::Status RemoveEmptyFolders(const std::string& target);

}  // namespace berth::crust
