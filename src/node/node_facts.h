// What a Node object says about the machine: capacity, system information, addresses.
#pragma once

#include <string>

#include "base/json.h"

namespace berth::node {

// "amd64", "arm64", ... as Kubernetes names them.
std::string Architecture();

// Node.status.capacity: cpu, memory, ephemeral-storage of `folder`'s file system, pods.
base::Json NodeCapacity(const std::string& folder, int max_pods);

// Node.status.nodeInfo. Members that the machine does not reveal are empty.
base::Json NodeSystemInfo(const std::string& version, const std::string& runtime_version);

// Node.status.addresses: the host's name, and its first address that is not loopback (or 127.0.0.1
// without one).
base::Json NodeAddresses();

}  // namespace berth::node
