// What the kernel says about processes, for people: /proc/PID.
//
// Read-only. A process may end between any two calls; what cannot be read is left empty.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"

namespace berth::platform {

struct ProcessInfo {
  pid_t pid = 0;
  bool thread = false;  // `pid` is a thread's id, and the rest describes that thread alone
  pid_t parent = 0;
  std::string name;     // at most 15 bytes; a thread may have changed it
  std::string program;  // the file name of what it executes
  char state = '?';     // proc(5): R S D T Z ...
  std::chrono::seconds age{0};
  // The kernel function that it waits in, of the thread that is hardest to wake. Empty if it does
  // not wait or the kernel does not tell (it tells only root).
  std::string wait_channel;

  // Whether it waits in a way that no signal ends: uninterruptibly, or for the answer of a FUSE
  // server that has read the request already.
  bool in_kernel() const { return state == 'D' || wait_channel == "request_wait_answer"; }
  // Stopped by SIGSTOP or a debugger.
  bool stopped() const { return state == 'T' || state == 't'; }
};

// NOT_FOUND: no such process.
base::StatusOr<ProcessInfo> ReadProcess(pid_t pid);
// The same for one thread, by its id.
base::StatusOr<ProcessInfo> ReadThread(pid_t tid);

// The numbers among the names in a folder of /proc: processes, threads, descriptors. None if it
// cannot be read.
std::vector<int> NumbersIn(const std::string& folder);

// A process and all its descendants, itself first; empty if it does not exist.
std::vector<ProcessInfo> ProcessTree(pid_t root);

// The process that listens on a UNIX socket (it may have handed it on since). UNAVAILABLE: nobody
// listens.
base::StatusOr<pid_t> SocketOwner(const std::string& path);

}  // namespace berth::platform
