// What berth-shim and the node agent say to each other: a utility of the host is to run in the pod
// that is registered for its plugin.
//
//   request  method "utility.run", plugin, argv (the utility's name first), env, cwd
//   reply    exit, out, err; or an error: the utility was not run, or what it did is unknown
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
//   plugin, socket: whom to ask, and for whose pod; path: of the shim itself; sha256: what it may
//   hold (cli/plugins/shims.h)
inline constexpr const char* kShimFolder = "/etc/berth/shims";
inline constexpr std::string_view kShimSocket = "socket";
inline constexpr std::string_view kShimPath = "path";
inline constexpr std::string_view kShimContent = "sha256";

// How long a utility may run: a mount waits for servers, fsck for disks.
inline constexpr std::chrono::minutes kMountTime{2};
inline constexpr std::chrono::minutes kOtherTime{60};

inline bool Mounts(std::string_view utility) { return utility.starts_with("mount."); }
inline std::chrono::milliseconds TimeOf(std::string_view utility) {
  return Mounts(utility) ? kMountTime : kOtherTime;
}

}  // namespace berth::base::ipc::utility
