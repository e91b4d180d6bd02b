// Finds out whether this host labels files with SELinux contexts.
#pragma once

namespace berth::platform {

// Whether SELinux is on, enforcing or permissive, which is when selinuxfs is mounted. Otherwise the
// kernel has no labels to set.
bool KernelHasSelinux();

}  // namespace berth::platform
