// The protocol between berth-shim and the node agent: berth-shim asks the agent to run a utility in
// the pod that is registered for the utility's plugin.
//
//   request  method "utility.run", plugin, argv (the utility's name first), env, cwd
//   reply    exit, out, err; or an error: the utility was not run, or its outcome is unknown
#pragma once

#include <chrono>
#include <string_view>

namespace berth::base::ipc::utility {

inline constexpr std::string_view kRun = "utility.run";
inline constexpr std::string_view kPlugin = "plugin";
inline constexpr std::string_view kArguments = "argv";
inline constexpr std::string_view kEnvironment = "env";
inline constexpr std::string_view kFolder = "cwd";
inline constexpr std::string_view kExit = "exit";
inline constexpr std::string_view kOut = "out";
inline constexpr std::string_view kErr = "err";

inline constexpr const char* kSocket = "/run/berth/utilities.sock";

// One file for each shim, <folder>/<utility>.json, which `berth install-shims` writes:
//   version: 1, or missing in a file that an earlier Berth wrote; plugin: in whose pod the utility
//   runs; socket: that of the node agent; path: that of the shim; sha256: the hashes of what the
//   shim's file may hold (cli/plugins/shims.h)
inline constexpr const char* kShimFolder = "/etc/berth/shims";
inline constexpr std::string_view kShimVersion = "version";
inline constexpr std::string_view kShimSocket = "socket";
inline constexpr std::string_view kShimPath = "path";
inline constexpr std::string_view kShimContent = "sha256";

// How long a utility may run. A mount waits only for servers, but fsck may read a whole disk.
inline constexpr std::chrono::minutes kMountTime{2};
inline constexpr std::chrono::minutes kOtherTime{60};

inline bool IsMountUtility(std::string_view utility) { return utility.starts_with("mount."); }
inline std::chrono::milliseconds TimeLimitOf(std::string_view utility) {
  return IsMountUtility(utility) ? kMountTime : kOtherTime;
}

}  // namespace berth::base::ipc::utility
