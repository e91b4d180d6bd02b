// How a process that is not this one's child came to its end.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace berth::platform {

// The wait status (waitpid(2)) of the ended process `pid`, whose pidfd was opened while it lived.
// While its parent has not fetched it, the kernel shows it in /proc; later pidfds tell it, since
// Linux 6.15. None: not known.
std::optional<int> EndOfProcess(pid_t pid, int pidfd);

// "was killed by signal 9 (SIGKILL)", "exited with status 1", "ended (how is not known)".
std::string DescribeEnd(std::optional<int> wait_status);

}  // namespace berth::platform
