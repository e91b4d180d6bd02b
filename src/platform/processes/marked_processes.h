// Processes that are found by a variable of their environment, in whatever namespaces they run:
// what a program that ran in a container left there.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string_view>

namespace berth::platform {

// Whether the environment that a process began with holds `variable` ("NAME=value"), in its first
// MiB. A zombie has none.
bool IsMarked(pid_t pid, std::string_view variable);

// Kills (SIGKILL, by pidfd) every process whose initial environment holds `variable`
// ("NAME=value"), and what descends from one, until none is left or the time is up. The number that
// is left then: those that wait in the kernel. This process has the host's process ids.
size_t KillMarked(std::string_view variable, std::chrono::milliseconds within);

}  // namespace berth::platform
