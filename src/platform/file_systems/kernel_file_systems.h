// Asks which file systems the kernel can mount.
#pragma once

#include <string>

#include "base/status.h"

namespace berth::platform {

// Whether the kernel has the file system `type`. Loads its module as a mount would, so that it
// counts even before the first mount. PERMISSION_DENIED: this process lacks CAP_SYS_ADMIN.
// DEADLINE_EXCEEDED: the module takes over 30 s.
base::StatusOr<bool> KernelHasFileSystem(const std::string& type);

}  // namespace berth::platform
