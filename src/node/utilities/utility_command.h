// Turns a shim's request into a command for the pod: pure.
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

// INVALID_ARGUMENT for what no shim sends: no plugin, a name with a '/', a NUL, too much of it.
base::StatusOr<UtilityCall> ReadUtilityCall(const base::ipc::Message& message);

// The same arguments, environment and working directory, as far as the pod can have them.
platform::Command CommandOf(const UtilityCall& call, std::string_view kubelet_folder);

// The exit code of CommandOf's own command if the pod has no such utility; the command then prints
// nothing.
inline constexpr int kNoUtility = 127;

// Where the utility may mount: the target of mount.<type>, and of a FUSE program (ceph-fuse) all of
// its arguments that may be one, since only it knows which is. Empty for others, and where nothing
// is mounted (-f, --help). INVALID_ARGUMENT: elsewhere than below the kubelet's folder, the only
// one that the pod shares with the host.
base::StatusOr<std::vector<std::string>> MountTargets(const UtilityCall& call,
                                                      std::string_view kubelet_folder);

}  // namespace berth::node
