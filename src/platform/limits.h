// The process's resource limits.
#pragma once

#include "base/status.h"

namespace berth::platform {

// Raises the soft limit of open descriptors to the hard limit, because each connection, watch and
// volume takes a descriptor, and distributions set the soft limit to 1024 for programs that use
// select(2).
base::Status RaiseDescriptorLimit();

// Keeps this process's memory, which may hold Secrets and keys, out of core files and from other
// processes of its user: the process is not dumpable (prctl(2), PR_SET_DUMPABLE), and its limit for
// core files is 0. Programs that it executes are dumpable again, but leave no core file either.
// Root with CAP_SYS_PTRACE can still read /proc/PID and trace the process.
base::Status HideMemory();

}  // namespace berth::platform
