// The capabilities of this process (capabilities(7)).
#pragma once

#include <string_view>

namespace berth::platform {

// Whether the text of /proc/PID/status has the capability CAP_... of this number in its effective
// set. False if the text has no such set.
bool HasCapabilityIn(std::string_view status, int capability);
// Whether this process has the capability. The programs that it starts as root have it, too, unless
// they are started without it.
bool HasCapability(int capability);

}  // namespace berth::platform
