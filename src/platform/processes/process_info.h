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
  bool thread = false;  // `pid` is one thread's, and what is said holds for that one alone
  pid_t parent = 0;
  std::string name;     // at most 15 bytes; a thread may have changed it
  std::string program;  // the file name of what it executes
  char state = '?';     // proc(5): R S D T Z ...
  std::chrono::seconds age{0};
  // The kernel function that it waits in, of the thread that waits hardest; empty if it doesn't
  // wait or the kernel doesn't say (it tells root alone).
  std::string wait_channel;

  // In a wait that only its cause ends: uninterruptible, or for the answer of a FUSE server, which
  // no signal ends either once the server has read the request.
  bool in_kernel() const { return state == 'D' || wait_channel == "request_wait_answer"; }
  // By SIGSTOP or a debugger.
  bool stopped() const { return state == 'T' || state == 't'; }
};

// NOT_FOUND: no such process.
base::StatusOr<ProcessInfo> ReadProcess(pid_t pid);
// The same for one thread, by its id.
base::StatusOr<ProcessInfo> ReadThread(pid_t tid);

// The numbers that a folder of /proc has as names: processes, threads, descriptors. None where it
// cannot be read.
std::vector<int> NumbersIn(const std::string& folder);

// A process and all below it, itself first; empty if there is none.
std::vector<ProcessInfo> ProcessTree(pid_t root);

// The process that listens on a UNIX socket (it may have handed it on since). UNAVAILABLE: nobody
// listens.
base::StatusOr<pid_t> SocketOwner(const std::string& path);

}  // namespace berth::platform
