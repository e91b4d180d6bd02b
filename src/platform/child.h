// Runs a function in a forked child with a deadline, for system calls that can block for ever
// (mount, umount, stat of a dead file system): "Nothing hangs the agent".
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

// Forks; the child calls `body` and its result comes back through a pipe. `body` may use only
// async-signal-safe calls on data prepared before (the process is multi-threaded): raw system
// calls, no allocation, no locks; it returns 0 or an errno. It sees the caller's descriptors.
// DEADLINE_EXCEEDED: the child did not come back in time. It was sent SIGKILL and is reaped by a
// later call, when the kernel has let it go; the outcome is unknown.
base::Status RunInChild(std::string_view what, std::chrono::milliseconds timeout,
                        const std::function<int()>& body);

// As above; what `body` leaves in `reply` (memory of the caller, at most 64 KiB) comes back to the
// caller if it returned 0. The child writes to its own copy until then.
base::Status RunInChild(std::string_view what, std::chrono::milliseconds timeout, void* reply,
                        size_t reply_size, const std::function<int()>& body);

// As RunInChild, for a body that opens something: a path can lead through a file system that
// answers no more. The body returns a descriptor or a negative errno; both come back, the
// descriptor as one of this process.
struct OpenedInChild {
  base::UniqueFd fd;
  int error = 0;  // an errno, if `fd` is not valid
};
base::StatusOr<OpenedInChild> OpenInChild(std::string_view what, std::chrono::milliseconds timeout,
                                          const std::function<int()>& body);

// OK if the device's first sector can be read in time, or an error comes back.
base::Status CheckReads(const std::string& device, std::chrono::milliseconds timeout);

// Names a descriptor that children must not share: a lock that a child stuck in the kernel
// inherited would outlive this process. It is recognised by its inode, so a closed descriptor needs
// no call.
void CloseInChildren(int fd);

// A descriptor that is readable once the process `pid`, a child of this one, has ended;
// pidfd_open(2).
base::UniqueFd OpenPid(pid_t pid);

// Hands a child that was killed but is not gone yet over to be reaped by a later call.
void ReapLater(pid_t pid);

}  // namespace berth::platform
