// Finds the addresses of a share's server. The kernel resolves no names: for a share of NFS it
// wants the server's address in the option addr=, which mount.nfs(8) adds on a host.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"
#include "crust/mount_plan.h"
#include "platform/host_lookup.h"

namespace berth::crust {

// Gives the addresses of the server for the option addr=, in the order in which they are tried, at
// most four. `source` is "HOST:/path", "ADDRESS:/path" or "[IPv6]:/path". Empty: the kernel needs
// none, because the file system is another one, a utility mounts it, or its options have one.
// UNAVAILABLE: the name has no address. DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED: as
// platform::ResolveHost. INVALID_ARGUMENT: `source` names no server.
base::StatusOr<std::vector<std::string>> FindShareAddresses(
    const std::string& source, const MountFileSystem& mount,
    std::chrono::steady_clock::time_point deadline,
    const platform::LookUp& look_up = platform::LookUpBySystem);

}  // namespace berth::crust
