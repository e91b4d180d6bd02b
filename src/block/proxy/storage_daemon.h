// A process of qemu-storage-daemon, one for each volume: so one that dies takes no other volume
// with it, and one can be killed whose server hangs. It lives apart from the process that started
// it, in a session of its own, and is known again by its pid and start time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::block::proxy {

struct DaemonId {
  pid_t pid = 0;
  uint64_t start_time = 0;  // in ticks since boot: proc(5), stat
};

struct DaemonOptions {
  std::string program = "qemu-storage-daemon";  // looked up in PATH
  std::string mark;                             // its environment: "NAME=value"
  std::string qmp_socket;
  std::string log;  // a file for what it says
  // An open file that it has, under this number, and so the lock of it, for as long as it lives.
  // Borrowed; -1: none.
  int held = -1;
};

inline constexpr int kHeldFd = 3;

// FAILED_PRECONDITION: the program is not installed.
base::StatusOr<DaemonId> StartDaemon(const DaemonOptions& options);

// A descriptor that is readable once that very process has ended; invalid: it has.
base::UniqueFd OpenDaemon(const DaemonId& id);

// SIGKILL, and waits for the end: DEADLINE_EXCEEDED where the kernel does not let it go.
base::Status KillDaemon(const DaemonId& id, std::chrono::milliseconds within);

}  // namespace berth::block::proxy
