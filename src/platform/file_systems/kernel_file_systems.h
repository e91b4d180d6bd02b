// Which file systems the kernel can mount.
#pragma once

#include <string>

#include "base/status.h"

namespace berth::platform {

// Loads the file system's module as a mount would, so that it counts even before the first mount.
// Needs CAP_SYS_ADMIN: PERMISSION_DENIED. DEADLINE_EXCEEDED: the module takes over 30 s.
base::StatusOr<bool> KernelHasFileSystem(const std::string& type);

}  // namespace berth::platform
