// What the config.json of a pod's sandbox (OCI runtime specification, as containerd writes it) asks
// of the virtual machine that the pod gets. On the host these are settings of the namespaces and of
// the cgroup that the pod's containers share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::crust {

struct PodSetup {
  std::string hostname;
  std::vector<std::string> sysctls;  // "NAME=VALUE" each
  std::string network;               // path of the network namespace that CNI has set up
  // What the limits of all containers and the overhead of the runtime class add up to; 0: a
  // container has no limit.
  int64_t memory_bytes = 0;
  // Hundredths of a second of processor time for each second; 0: a container has no limit.
  int64_t cpu_percent = 0;
};

// Reads it. UNIMPLEMENTED, with the name of the pod's field: the pod needs what a guest does not
// have. Pure.
base::StatusOr<PodSetup> ReadPodSetup(const base::Json& config);

}  // namespace berth::crust
