#include "platform/limits.h"

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

}  // namespace berth::platform
