// Controls a FUSE connection through the kernel's fusectl file system. The device number of the
// FUSE file system identifies the connection.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"

namespace berth::block::proxy {

// The path below the I/O proxy's folder at which the control file system is mounted, whether or not
// the host has it at /sys/fs/fuse/connections.
std::string FuseControlOf(const std::string& folder);

// Mounts the control file system there; OK if it is mounted already.
base::Status MountFuseControl(const std::string& folder);

// Limits the kernel to one asynchronous read or write to the server at a time.
base::Status LimitToOneRequest(const std::string& folder, dev_t device);

// Aborts a FUSE connection whose server does not end: every waiting request fails, and no later
// request reaches the server. A failure is only logged.
void AbortFuse(const std::string& folder, dev_t device);

}  // namespace berth::block::proxy
