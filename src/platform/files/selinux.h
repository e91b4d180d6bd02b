// Whether this host labels files with SELinux contexts.
#pragma once

namespace berth::platform {

// selinuxfs is mounted only if the kernel has SELinux on, enforcing or permissive. Otherwise the
// kernel knows no labels and there is nothing to set.
bool KernelHasSelinux();

}  // namespace berth::platform
