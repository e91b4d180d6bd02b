// Reads /proc/PID/stat and the kernel's boot id. With them, a record identifies a process and a
// boot. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::base {

// The fields of /proc/PID/stat or /proc/PID/task/TID/stat that Berth needs; see proc(5).
struct ProcessStat {
  std::string name;
  char state = '?';
  pid_t parent = 0;
  uint64_t start_ticks = 0;      // in clock ticks since the boot
  std::optional<int> exit_code;  // a wait status, once the process has ended (state Z or X)
};

// Parses the one line of such a file. nullopt: `line` is malformed. The name in it may hold any
// character, even ')'.
std::optional<ProcessStat> ParseProcessStat(std::string_view line);

// nullopt: there is no such process, or its file cannot be read. `pid` may also be the id of a
// thread.
std::optional<ProcessStat> ReadProcessStat(pid_t pid);

// Returns the process's start in clock ticks since the boot. A pid alone does not identify a
// process, because the kernel reuses pids; pid and start time together do. 0: there is no such
// process.
uint64_t ReadStartTicks(pid_t pid);

// Returns the kernel's boot id; empty if /proc is not mounted. Writers of records use
// platform::BootId (platform/files/durable_file.h), which returns an error instead.
std::string ReadBootId();

}  // namespace berth::base
