// Gives the path that a folder has in the mount table, which contains no symlinks.
#pragma once

#include <string>

#include "platform/mounts/mounter.h"

namespace berth::blockagent {

// Resolves the symlinks of `folder`, except in the last part of the path, because a file system
// that is mounted there could hang. If the folder above it cannot be resolved, `folder` is returned
// as it is.
inline std::string MountPointOf(const std::string& folder) {
  return platform::ResolveMountPoint(folder).value_or(folder);
}

}  // namespace berth::blockagent
