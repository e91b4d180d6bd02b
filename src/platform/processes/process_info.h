// Reads the state of processes from /proc/PID, for messages to people.
//
// Changes nothing, but FindSocketOwner makes a connection that the server sees. A process may end
// between any two calls; what cannot be read is left empty. No function waits for a process that
// keeps everybody from reading it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace berth::platform {

struct ProcessInfo {
  pid_t pid = 0;
  bool thread = false;  // `pid` is a thread's id, and the rest describes that thread alone
  pid_t parent = 0;
  std::string name;     // at most 15 bytes; a thread may have changed it
  std::string program;  // the file name of its executable
  char state = '?';     // proc(5): R S D T Z ...; of the same thread as wait_channel
  std::chrono::seconds age{0};
  // The kernel function that it waits in, of the thread that is hardest to wake. Empty if it does
  // not wait, or if the kernel does not show it (it shows it only to root).
  std::string wait_channel;
  // It waits in execve for a file system that does not answer, and keeps everybody from reading the
  // fields `program`, `age` and `wait_channel` (process_walk.h).
  bool unreadable = false;

  // Whether it waits in a way that no signal ends: uninterruptibly, or for the answer of a FUSE
  // server that has read the request already.
  bool in_kernel() const {
    return state == 'D' || wait_channel == "request_wait_answer" || unreadable;
  }
  // Stopped by SIGSTOP or a debugger.
  bool stopped() const { return state == 'T' || state == 't'; }
};

// NOT_FOUND: no such process.
base::StatusOr<ProcessInfo> ReadProcess(pid_t pid);
// Describes one thread, by its id. NOT_FOUND: no such thread.
base::StatusOr<ProcessInfo> ReadThread(pid_t tid);

// Returns the names in a folder of /proc that are numbers: processes, threads, descriptors. Empty
// if the folder cannot be read.
std::vector<int> ListNumbers(const std::string& folder);

// A process and all its descendants, itself first; empty if it does not exist.
std::vector<ProcessInfo> ReadProcessTree(pid_t root);

// Finds the id of a container in a line of /proc/PID/cgroup: 64 hexadecimal digits between other
// characters. The last one of the line counts, because a pod's container is below the pod. "":
// there is none.
std::string FindContainerId(std::string_view cgroup);
// The runtime's id of the container that the process is in, by its cgroups. "": none, or not known.
std::string ReadContainerId(pid_t pid);

// Connects to a UNIX socket, and returns the process that called listen(2) on it. That process may
// have passed the socket on since. If its queue of connections is full, it is found by who has the
// socket open. UNAVAILABLE: no process listens. INVALID_ARGUMENT: the path is too long.
// RESOURCE_EXHAUSTED: its queue is full, and it is not found.
base::StatusOr<pid_t> FindSocketOwner(const std::string& path);

}  // namespace berth::platform
