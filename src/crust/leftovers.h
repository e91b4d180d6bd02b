// What a runtime leaves on the host of a volume that it never mounted there: containerd makes a
// mount's source where it finds none, so that a container's subPath stays behind as empty folders.
#pragma once

#include <string>

#include "base/status.h"

namespace berth::crust {

// Removes the folders below `target` that hold nothing but such folders; never what is mounted
// there, no file, and not `target` itself. Symlinks are not followed. Nothing there is OK.
base::Status RemoveEmptyFolders(const std::string& target);

}  // namespace berth::crust
