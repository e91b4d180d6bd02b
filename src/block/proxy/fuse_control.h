// Controls a FUSE connection through the kernel's fusectl file system. `folder` is always the I/O
// proxy's folder. `device`, the device number of the FUSE file system, identifies the connection.
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"

namespace berth::block::proxy {

// Returns the path below `folder` at which the control file system is mounted. It is mounted there
// in any case, because a host may not have it at /sys/fs/fuse/connections.
std::string FuseControlOf(const std::string& folder);

// Mounts the control file system at FuseControlOf(folder); OK if it is mounted there already.
base::Status MountFuseControl(const std::string& folder);

// Limits the kernel to one asynchronous read or write to the server at a time.
base::Status LimitToOneRequest(const std::string& folder, dev_t device);

// Aborts a FUSE connection whose server does not end: every waiting request fails, and no later
// request reaches the server. It logs the outcome, and returns no failure, because the caller goes
// on in either case.
void AbortFuse(const std::string& folder, dev_t device);

}  // namespace berth::block::proxy
