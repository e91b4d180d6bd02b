// Whether this host labels files.
#pragma once

namespace berth::platform {

// selinuxfs is mounted only where the kernel enforces labels, or would. A kernel without SELinux
// knows none: there is nothing to set.
bool KernelHasSelinux();

}  // namespace berth::platform
