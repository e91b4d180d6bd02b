// Runs utilities on the host, as the agent's own children. If the agent itself runs in a container,
// mount and umount run in the host's mount namespace (its container has the host's process ids, so
// that process 1 is the host's), and the rest in the container's own.
#pragma once

#include <memory>

#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"
#include "volume/helper_mounts.h"

namespace berth::volume {

struct HostWay {
  bool containerized = false;
};

std::unique_ptr<platform::Exec> NewHostWayExec(const HostWay& way);

// Borrows both; `exec` runs utilities in the same way.
std::unique_ptr<HelperMounts> NewHostWayMounts(platform::Exec& exec, platform::Mounter& mounter,
                                               const HostWay& way);

// Returns the command that an agent in a container runs for `command`: mount and umount run through
// nsenter(1), and other commands stay as they are.
platform::Command MakeHostCommand(const platform::Command& command);

}  // namespace berth::volume
