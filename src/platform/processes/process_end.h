// Finds out how a process that is not this one's child ended.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace berth::platform {

// The wait status (waitpid(2)) of the ended process `pid`, whose pidfd was opened while it lived.
// Until its parent has reaped it, the kernel shows the status in /proc; after that the pidfd tells
// it, since Linux 6.15. None: not known.
std::optional<int> EndOfProcess(pid_t pid, int pidfd);

// "was killed by signal 9 (SIGKILL)", "exited with status 1", "ended (how is not known)".
std::string DescribeEnd(std::optional<int> wait_status);

}  // namespace berth::platform
