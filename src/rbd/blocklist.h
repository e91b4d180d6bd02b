// The clients from which Ceph takes nothing any more, by their addresses.
#pragma once

#include <string>

#include "base/status.h"
#include "rbd/cluster.h"

namespace berth::rbd {

// From the next OSD map on, no OSD does anything for the client any more. PERMISSION_DENIED: the
// user lacks the capability.
base::Status AddToBlocklist(const Cluster& cluster, const std::string& address);
// Waits until this client has an OSD map that has all entries which were added before.
base::Status WaitForBlocklist(const Cluster& cluster);
base::Status RemoveFromBlocklist(const Cluster& cluster, const std::string& address);

}  // namespace berth::rbd
