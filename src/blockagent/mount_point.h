// Gives the path that a folder has in the mount table, which contains no symlinks.
#pragma once

#include <string>

#include "platform/mounts/mounter.h"

namespace berth::blockagent {

// The last part of the path is not resolved, because a file system that is mounted there could
// hang. A path whose folder cannot be resolved is returned as it is.
inline std::string MountPointOf(const std::string& folder) {
  return platform::ResolveMountPoint(folder).value_or(folder);
}

}  // namespace berth::blockagent
