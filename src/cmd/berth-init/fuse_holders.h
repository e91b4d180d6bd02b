// Finds the processes that have /dev/fuse open, by the links in /proc/PID/fd, and the file systems
// that they serve, by /proc/PID/fdinfo.
//
// Reading these can block for ever: a process in execve that closes a file of a file system whose
// server does not answer keeps everybody from it. So a child reads them, and is given up at a
// process that makes it wait; the next child goes on behind that process. Of descriptors that are
// not /dev/fuse the fdinfo is not read, because that of an epoll descriptor can block, too.
//
// A child that was given up is killed. If the kernel does not end it even so, a later call reaps
// it, and when eight of them wait, no more are made. The log tells so once. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace berth::init {

struct FuseHolder {
  pid_t pid = 0;
  bool read = false;  // false: a child was given up at it, so it may have /dev/fuse open
  // The kernel's numbers of the devices of the file systems that it serves, as the kernel names
  // them; at most 500. Empty: the kernel does not name them, or it serves none.
  std::vector<uint64_t> connections;
};

// Returns those of `pids` that have /dev/fuse open, and those at which a child was given up. After
// a few of the latter, or if no more children are made, all other processes count as such, too.
// `proc` is the /proc of the PID namespace.
std::vector<FuseHolder> FindFuseHolders(const std::string& proc, const std::vector<pid_t>& pids);

// Reaps the children that were given up and have ended since. Returns how many have not.
size_t ReapReaders();

}  // namespace berth::init
