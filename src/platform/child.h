// Runs a function in a forked child with a deadline, for system calls that can block for ever (mount,
// umount, stat of a dead file system): "Nothing hangs the agent".
#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "base/status.h"

namespace berth::platform {

// Forks; the child calls `body` and its result comes back through a pipe. `body` may use only
// async-signal-safe calls on data prepared before (the process is multi-threaded): raw system calls, no
// allocation, no locks; it returns 0 or an errno.
// DEADLINE_EXCEEDED: the child did not come back in time. It was sent SIGKILL and is reaped by a
// background thread when the kernel lets it go; the outcome is unknown.
base::Status RunInChild(std::string_view what, std::chrono::milliseconds timeout,
                        const std::function<int()>& body);

}  // namespace berth::platform
