// Finds out how a process that is not this one's child ended.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace berth::platform {

// The wait status (waitpid(2)) of the ended process `pid`, whose pidfd was opened while it lived.
// Until the parent has reaped the process, the kernel shows the status in /proc; after that only
// the pidfd gives it, since Linux 6.15. nullopt: not known, or the process still runs.
std::optional<int> ReadWaitStatus(pid_t pid, int pidfd);

// "was killed by signal 9 (SIGKILL)", "exited with status 1", "ended (how is not known)".
std::string DescribeEnd(std::optional<int> wait_status);

}  // namespace berth::platform
