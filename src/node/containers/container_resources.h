// Translates Kubernetes' resource requests and limits into the values that the kernel takes. Pure,
// except the two functions that read the size of this machine.
#pragma once

#include <cstdint>
#include <string>

#include "api/kinds/kinds.h"
#include "rpc/cri_client.h"

namespace berth::node {

// "Guaranteed", "Burstable" or "BestEffort" (pod.status.qosClass).
std::string ComputeQosClass(const api::Pod& pod);

// Shares, quota, memory limit and OOM score of a container, as the kubelet computes them.
// `memory_capacity` is the node's, in bytes.
rpc::cri::LinuxContainerResources MakeContainerResources(const api::Pod& pod,
                                                         const api::Container& container,
                                                         int64_t memory_capacity);

// The value of env.valueFrom.resourceFieldRef. `resource` is "limits.cpu", "requests.memory" and so
// on; the value is in whole units of `divisor` ("" is 1), rounded up. For a limit that is not set
// it is the node's capacity (`cpu_capacity_milli` in thousandths of a CPU, `memory_capacity` in
// bytes). INVALID_ARGUMENT: another resource, or the divisor is not valid.
base::StatusOr<std::string> ComputeResourceField(const api::Container& container,
                                                 const std::string& resource,
                                                 const std::string& divisor,
                                                 int64_t cpu_capacity_milli,
                                                 int64_t memory_capacity);

// The memory of this machine in bytes, and its processors in thousandths of a CPU.
int64_t ReadMachineMemory();
int64_t ReadMachineCpuMilli();

}  // namespace berth::node
