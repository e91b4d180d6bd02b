// The process's resource limits.
#pragma once

#include "base/status.h"

namespace berth::platform {

// Raises the soft limit of open descriptors to the hard limit, because each connection, watch and
// volume takes a descriptor, and distributions set the soft limit to 1024 for programs that use
// select(2).
base::Status RaiseDescriptorLimit();

}  // namespace berth::platform
