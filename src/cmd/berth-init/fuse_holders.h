// Finds the processes that have /dev/fuse open, by the links in /proc/PID/fd.
//
// Reading such a link can block for ever: a process in execve that closes a file of a file system
// whose server does not answer keeps everybody from it. So a child reads the links, and is given up
// at a process that makes it wait; the next child goes on behind that process.
//
// A child that was given up is killed. If the kernel does not end it even so, a later call reaps
// it, and when eight of them wait, no more are made. The log tells so once. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace berth::init {

// Returns those of `pids` that have /dev/fuse open, and those at which a child was given up,
// because they may have it open. After a few of the latter, or if no more children are made, all
// other processes count as such, too.
// `proc` is the /proc of the PID namespace.
std::vector<pid_t> FindFuseHolders(const std::string& proc, const std::vector<pid_t>& pids);

// Reaps the children that were given up and have ended since. Returns how many have not.
size_t ReapReaders();

}  // namespace berth::init
