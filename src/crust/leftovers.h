// Removes what a runtime leaves on the host for a volume that is not mounted there: containerd
// makes a missing source of a mount, so a container's subPath leaves empty folders.
#pragma once

#include <string>

#include "base/status.h"

namespace berth::crust {

// Removes the folders below `target` that contain nothing but empty folders. Never removes a mount,
// a file, or `target` itself. Does not follow symlinks. OK if nothing is there.
base::Status RemoveEmptyFolders(const std::string& target);

}  // namespace berth::crust
