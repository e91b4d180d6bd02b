// What tells one process, and one boot, from the next: /proc/PID/stat and the kernel's boot id.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::base {

// Of /proc/PID/stat or /proc/PID/task/TID/stat; proc(5).
struct ProcessStat {
  std::string name;
  char state = '?';
  pid_t parent = 0;
  uint64_t start_ticks = 0;      // in clock ticks since the boot
  std::optional<int> exit_code;  // a wait status, once the process has ended (state Z or X)
};

// None for what is no such line. The name may hold anything, even ')'.
std::optional<ProcessStat> ParseProcessStat(std::string_view line);

// None: there is no such process. Also of one thread, by its id.
std::optional<ProcessStat> ReadProcessStat(pid_t pid);

// Together with its number this is a process's identity, since numbers are given out anew. 0: there
// is no such process.
uint64_t ProcessStartTicks(pid_t pid);

// The kernel's boot id; empty where /proc is not mounted. For records: platform::BootId
// (platform/files/durable_file.h).
std::string ReadBootId();

}  // namespace berth::base
