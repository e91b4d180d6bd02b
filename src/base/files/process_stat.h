// Reads /proc/PID/stat, /proc/PID/status and the kernel's boot id. With them, a record identifies a
// process and a boot. Thread-safe.
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
  uint64_t user_ticks = 0;    // processor time in user mode, in clock ticks
  uint64_t system_ticks = 0;  // processor time in the kernel, in clock ticks
  uint64_t start_ticks = 0;   // in clock ticks since the boot
  uint64_t virtual_bytes = 0;
  uint64_t resident_pages = 0;
  std::optional<int> exit_code;  // a wait status, once the process has ended (state Z or X)
};

// Parses the one line of such a file. nullopt: `line` is malformed. The name in it may hold any
// character, even ')'.
std::optional<ProcessStat> ParseProcessStat(std::string_view line);

// nullopt: there is no such process, or its file cannot be read. `pid` may also be the id of a
// thread. The read can block for ever if the process is not this one, its parent or a child that
// has not called execve; see platform/processes/process_walk.h for the processes of others.
std::optional<ProcessStat> ReadProcessStat(pid_t pid);

// The fields of /proc/PID/status that Berth needs. The kernel shows this file without a wait,
// whatever the process does.
struct ProcessStatus {
  std::string name;
  char state = '?';
  pid_t parent = 0;  // 0 also if it is outside of the PID namespace
};
// Parses such a file. nullopt: `text` is malformed.
std::optional<ProcessStatus> ParseProcessStatus(std::string_view text);
// nullopt: there is no such process. `pid` may also be the id of a thread.
std::optional<ProcessStatus> ReadProcessStatus(pid_t pid);

// Returns the process's start in clock ticks since the boot; as ReadProcessStat, only for a process
// that is known not to be another's. A pid alone does not identify a
// process, because the kernel reuses pids; pid and start time together do. 0: there is no such
// process.
uint64_t ReadStartTicks(pid_t pid);

// Returns the kernel's boot id; empty if /proc is not mounted. Writers of records use
// platform::BootId (platform/files/durable_file.h), which returns an error instead.
std::string ReadBootId();

}  // namespace berth::base
