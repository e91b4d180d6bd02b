// Finds out whether this host labels files with SELinux contexts.
#pragma once

#include <string>

#include "base/status.h"

namespace berth::platform {

// Whether SELinux is on, enforcing or permissive, which is when selinuxfs is mounted. Otherwise the
// kernel has no labels to set.
bool KernelHasSelinux();

// INVALID_ARGUMENT: the policy that the kernel has loaded knows no such label. A process with
// CAP_MAC_ADMIN could give it to a file nevertheless, and nobody could use the file then. OK if
// SELinux is not on.
base::Status CheckLabel(const std::string& label);

}  // namespace berth::platform
