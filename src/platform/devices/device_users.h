// Finds the processes that have a block device open, such as the virtual machine that it is
// attached to. A mount claims its device, so an open with O_EXCL fails meanwhile; a virtual machine
// claims nothing, so only its descriptors show that it has the device.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"

namespace berth::platform {

// Returns the processes that have the block device `device` open, by whichever path.
// DEADLINE_EXCEEDED: some process could not be asked in time, so it may have the device; the
// message names it.
base::StatusOr<std::vector<pid_t>> FindDeviceUsers(
    dev_t device, std::chrono::milliseconds within = std::chrono::seconds(10));

// "process 42 'qemu-system-x86', process 43 'fio'": at most four of them.
std::string DescribeProcesses(const std::vector<pid_t>& pids);

}  // namespace berth::platform
