// What the kernel lets one control of a FUSE connection (fusectl), which is known by the device
// number of its file system.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"

namespace berth::block::proxy {

// Where the control file system is mounted below the I/O proxy's folder, whether or not the host
// has it at /sys/fs/fuse/connections.
std::string FuseControlOf(const std::string& folder);

// Mounts it there; OK if it is.
base::Status MountFuseControl(const std::string& folder);

// Lets the kernel send one asynchronous read or write at a time to the server.
base::Status LimitToOneRequest(const std::string& folder, dev_t device);

// Gives up a FUSE file system whose server does not end: whatever waits for it gets an error, and
// nothing that is asked later reaches the server. What cannot be done is logged.
void AbortFuse(const std::string& folder, dev_t device);

}  // namespace berth::block::proxy
