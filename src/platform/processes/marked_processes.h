// Finds and kills the processes that a program in a container left behind, by a variable of their
// environment and in all namespaces.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string_view>

namespace berth::platform {

// Whether the initial environment of a process holds `variable` ("NAME=value") in its first MiB. A
// zombie's environment is empty.
bool IsMarked(pid_t pid, std::string_view variable);

// Kills (SIGKILL, by pidfd) every process whose initial environment holds `variable`
// ("NAME=value"), and its descendants, until none is left or the time is up. Returns how many are
// left then: they wait in the kernel. This process must see the host's process ids.
size_t KillMarkedProcesses(std::string_view variable, std::chrono::milliseconds within);

}  // namespace berth::platform
