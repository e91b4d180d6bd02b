// Turns errno into a Status. No other code does so.
#pragma once

#include <string_view>

#include "base/status.h"

namespace berth::platform {

// "CONTEXT: Device or resource busy", with the code that fits `error` (an errno value, passed
// explicitly): ENOENT NOT_FOUND, EEXIST ALREADY_EXISTS, EACCES and EPERM PERMISSION_DENIED, ENOSPC,
// EDQUOT and EMFILE RESOURCE_EXHAUSTED, EBUSY FAILED_PRECONDITION, EINVAL INVALID_ARGUMENT,
// ETIMEDOUT DEADLINE_EXCEEDED, ECONNREFUSED UNAVAILABLE, all else INTERNAL.
base::Status ErrnoError(int error, std::string_view context);

}  // namespace berth::platform
