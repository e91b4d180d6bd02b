#include "platform/files/selinux.h"

#include <unistd.h>

namespace berth::platform {

bool KernelHasSelinux() { return access("/sys/fs/selinux/enforce", F_OK) == 0; }

}  // namespace berth::platform
