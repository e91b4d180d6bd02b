// Turns a shim's request into a command for the pod. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ipc/message.h"
#include "base/status.h"
#include "platform/processes/exec.h"

namespace berth::node {

struct UtilityCall {
  std::string plugin;
  std::vector<std::string> argv;  // the utility's name first
  std::vector<std::string> env;
  std::string folder;  // the caller's working directory; empty: none
};

// Reads a shim's request. INVALID_ARGUMENT: it has no plugin, argv, environment or folder, a
// utility's name that is not plain, a NUL, or too many bytes.
base::StatusOr<UtilityCall> ReadUtilityCall(const base::ipc::Message& message);

// Makes a command with the call's arguments. Variables that describe the host (PATH, LD_* and so
// on) are left out, and the working directory is kept only if it is below `kubelet_folder`.
platform::Command CommandOf(const UtilityCall& call, std::string_view kubelet_folder);

// The exit code of CommandOf's own command if the pod has no such utility; the command then prints
// nothing.
inline constexpr int kNoUtility = 127;

// The paths at which the utility may mount. For mount.<type> this is its target. For a FUSE program
// (ceph-fuse) these are all arguments that may be the target, because only the program knows which
// one is. Empty for other utilities, and if nothing is mounted (-f, --help). INVALID_ARGUMENT: no
// target is below the kubelet's folder, the only folder that the pod shares with the host.
base::StatusOr<std::vector<std::string>> FindMountTargets(const UtilityCall& call,
                                                          std::string_view kubelet_folder);

}  // namespace berth::node
