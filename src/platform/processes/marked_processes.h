// Finds and kills the processes that a program in a container left behind, by the container's
// cgroup and a variable of their environment, in all namespaces.
//
// Reading an environment can block for ever (process_walk.h). A process that keeps everybody from
// reading it is left out, and the log tells so. Only processes of the container itself are asked at
// all if its id is given, so that those of other tenants cannot delay the search.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string_view>
#include <vector>

namespace berth::platform {

// The processes whose initial environment holds `variable` ("NAME=value") in its first MiB. A
// zombie's environment is empty.
std::vector<pid_t> ListMarkedProcesses(std::string_view variable);

// Kills (SIGKILL, by pidfd) every process whose initial environment holds `variable`
// ("NAME=value"), and its descendants, until none is left or the time is up. Returns how many are
// left then: they wait in the kernel. This process must see the host's process ids.
//
// `container`: the runtime's id of the container that they are in. If the cgroups of no process
// name it, all processes are searched. A process in the container that cannot be read counts as
// left, because it may be one of them. Empty: all processes are searched, and of those that cannot
// be read only the descendants of marked processes count, even when their parents have ended.
size_t KillMarkedProcesses(std::string_view variable, std::chrono::milliseconds within,
                           std::string_view container = {});

}  // namespace berth::platform
