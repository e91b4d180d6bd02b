// Reads the facts about this machine that its Node object holds: capacity, system information and
// addresses.
#pragma once

#include <string>

#include "base/json.h"

namespace berth::node {

// The processor architecture by Kubernetes' name: "amd64", "arm64"; for others the machine name of
// uname(2).
std::string ReadArchitecture();

// Node.status.capacity: cpu, memory, pods, and as ephemeral-storage the size of the file system of
// `folder`. A member that the kernel does not tell is absent.
base::Json ReadNodeCapacity(const std::string& folder, int max_pods);

// Node.status.nodeInfo. A member that cannot be read is empty. `version` is the kubeletVersion,
// `runtime_version` is as "containerd://1.6.20".
base::Json ReadNodeSystemInfo(const std::string& version, const std::string& runtime_version);

// Node.status.addresses: as InternalIP the first IPv4 address of an interface that is up and not
// the loopback (127.0.0.1 if there is none), and the host's name.
base::Json ReadNodeAddresses();

}  // namespace berth::node
