#include "platform/limits.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <cerrno>

#include "platform/errno.h"

namespace berth::platform {

base::Status RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return ErrnoError(errno, "read the descriptor limit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return ErrnoError(errno, "raise the descriptor limit");
  return base::OkStatus();
}

base::Status HideMemory() {
  const rlimit none = {};
  if (setrlimit(RLIMIT_CORE, &none) != 0) return ErrnoError(errno, "forbid core files");
  // A core that the kernel pipes to a program ignores the limit.
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return ErrnoError(errno, "forbid dumps of memory");
  return base::OkStatus();
}

}  // namespace berth::platform
