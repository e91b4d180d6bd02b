// The file system on a device that the node agent itself mounts for a plugin.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/processes/exec.h"

namespace berth::volume {

// The type with which `device` must be mounted: `asked` or, if that is empty, the type that the
// device holds, and ext4 for a blank one. FAILED_PRECONDITION: the device holds something that is
// no file system, or it does not hold `asked`, which is a type that cannot be made.
base::StatusOr<std::string> FileSystemTypeFor(const std::string& device, const std::string& asked);

// Makes a file system of a type that the platform knows if the device is blank, and checks it. Does
// nothing for other types. The device must not be mounted.
base::Status PrepareFileSystem(platform::Exec& exec, const std::string& device,
                               const std::string& type);

}  // namespace berth::volume
