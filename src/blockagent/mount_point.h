// Where a folder stands in the mount table, which knows no symlinks.
#pragma once

#include <string>

#include "platform/mounts/mounter.h"

namespace berth::blockagent {

// As given, where it cannot be resolved.
inline std::string MountPointOf(const std::string& folder) {
  return platform::ResolveMountPoint(folder).value_or(folder);
}

}  // namespace berth::blockagent
