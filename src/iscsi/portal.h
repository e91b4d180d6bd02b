// Turns the name of a portal into addresses within a deadline, because libiscsi calls the system's
// resolver in the thread that serves the volume. So libiscsi gets addresses only.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"
#include "platform/host_lookup.h"

namespace berth::iscsi {

// `portal` is "HOST", "HOST:PORT", "[IPv6]" or "[IPv6]:PORT"; gives the same with addresses in the
// place of HOST. An address is not looked up. Errors as platform::ResolveHost.
base::StatusOr<std::vector<std::string>> ResolvePortal(
    const std::string& portal, std::chrono::steady_clock::time_point deadline,
    const platform::LookUp& look_up = platform::LookUpBySystem);

}  // namespace berth::iscsi
