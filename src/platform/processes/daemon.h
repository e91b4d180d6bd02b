// Starts and kills daemons that outlive the process that started them, each in its own session:
// those that show volumes (block/proxy), and those of sandboxes' virtual machines (crust/machine).
// Each has its own process, so that the death of one affects no other, and one that hangs can be
// killed. Its pid and start time identify it.
//
// Thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

struct DaemonId {
  pid_t pid = 0;
  uint64_t start_time = 0;  // in ticks since boot: proc(5), stat
};

struct DaemonOptions {
  std::string program;  // a path, or a name that is looked for beside this program and in PATH
  std::vector<std::string> arguments;
  std::string mark;  // a variable of its environment: "NAME=value"
  std::string log;   // a file for its output and its errors
  // What it reads from its standard input: at most kMostInput bytes. Never
  // on a disk.
  std::string input;
  // An open file that the daemon inherits as descriptor kHeldFd, and so holds with its lock as long
  // as it lives. Borrowed; -1: none.
  int held = -1;
  // The mount namespace in which the program is found and runs. Borrowed; -1: that of this process.
  // The log is opened in this process's.
  int mount_namespace = -1;
};

inline constexpr int kHeldFd = 3;
// The input fits into a pipe, because it is written before the daemon runs.
inline constexpr size_t kMostInput = 60'000;

// FAILED_PRECONDITION: the program is not installed. INVALID_ARGUMENT: the input is too long.
base::StatusOr<DaemonId> StartDaemon(const DaemonOptions& options);

// A pidfd of the daemon, which becomes readable when the process ends. It is invalid if the process
// has ended already. A process with its pid that nobody can read (process_walk.h) counts as the
// daemon. An error, for example if descriptors have run out: it is not known whether the daemon
// lives.
base::StatusOr<base::UniqueFd> OpenDaemon(const DaemonId& id);

// Takes the wait status of the daemon, if it has ended and was a child of this process. Never takes
// that of another child, which may have got the daemon's pid since and which another caller awaits.
void ReapDaemon(const DaemonId& id);

// Sends SIGKILL and waits for the end. OK also if the process has ended already. DEADLINE_EXCEEDED:
// the process still waits in the kernel, or nobody can read whether it is the daemon. Any other
// error: it is not known whether the daemon lives.
base::Status KillDaemon(const DaemonId& id, std::chrono::milliseconds within);

}  // namespace berth::platform
