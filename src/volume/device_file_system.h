// The file system on a device that the node agent itself mounts for a plugin.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/processes/exec.h"

namespace berth::volume {

// The type that `device` is to be mounted with: `asked`, or if that is empty what the device holds,
// and ext4 for one that is blank. FAILED_PRECONDITION: it holds no file system, or one that is
// asked for and cannot be made is not there.
base::StatusOr<std::string> FileSystemTypeFor(const std::string& device, const std::string& asked);

// Makes a file system of a type that the platform knows if the device is blank, and checks it.
// Nothing for other types. For a device that is not mounted.
base::Status PrepareFileSystem(platform::Exec& exec, const std::string& device,
                               const std::string& type);

}  // namespace berth::volume
