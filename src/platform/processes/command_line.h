// The command lines of processes that may be anybody's, and the flags in them.
//
// The kernel shows /proc/PID/cmdline without a wait, also for a process that keeps everybody from
// reading its other files (process_walk.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace berth::platform {

// The words of the process whose folder in /proc is `process`. Empty: it has ended, it has none, or
// they have more than 256 KiB.
std::vector<std::string> ReadCommandLine(const std::string& process);

// The values of --NAME=VALUE or --NAME VALUE, also with one dash, in their order. The first word is
// the program.
std::vector<std::string> FindFlagValues(const std::vector<std::string>& words,
                                        std::string_view name);
// The last of them, which counts for a flag of one value; empty: there is none.
std::string FindFlag(const std::vector<std::string>& words, std::string_view name);

}  // namespace berth::platform
