// Finds the processes that have /dev/fuse open, by the links in /proc/PID/fd.
//
// Reading such a link can block for ever: a process in execve that closes a file of a file system
// whose server does not answer keeps everybody from it. So a child reads the links, and is given up
// at a process that makes it wait; the next child goes on behind that process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace berth::init {

// Returns those of `pids` that have /dev/fuse open, and those at which a child was given up,
// because they may have it open. After a few of the latter all other processes count as such, too.
// `proc` is the /proc of the PID namespace.
std::vector<pid_t> FindFuseHolders(const std::string& proc, const std::vector<pid_t>& pids);

}  // namespace berth::init
