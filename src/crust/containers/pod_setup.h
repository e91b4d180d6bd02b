// Reads from the config.json of a pod's sandbox (OCI runtime specification, as containerd writes
// it) what the pod's virtual machine must have. On the host these are settings of the namespaces
// and of the cgroup that the pod's containers share.
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
  // The sum of the limits of all containers and of the overhead of the runtime class; 0: a
  // container has no limit.
  int64_t memory_bytes = 0;
  // Hundredths of a second of processor time for each second; 0: a container has no limit.
  int64_t cpu_percent = 0;
};

// Reads it. UNIMPLEMENTED, with the name of the pod's field: the pod needs what a guest does not
// have. Pure.
base::StatusOr<PodSetup> ReadPodSetup(const base::Json& config);

// The same of the config.json in the folder `bundle`.
base::StatusOr<PodSetup> ReadPodSetupOf(const std::string& bundle);

}  // namespace berth::crust
