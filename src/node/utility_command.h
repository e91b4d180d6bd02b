// What of a shim's request becomes a command for the pod: pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ipc/message.h"
#include "base/status.h"
#include "platform/exec.h"

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

// The exit code of CommandOf's own where the pod has no such utility, which says nothing.
inline constexpr int kNoUtility = 127;

// Where mount.<type> is to mount; empty for other utilities, and where nothing is (-f, --help).
std::string MountTarget(const UtilityCall& call);

// If `path` is below `folder`, by its text.
bool IsBelow(std::string_view path, std::string_view folder);

}  // namespace berth::node
