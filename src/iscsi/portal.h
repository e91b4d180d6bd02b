// Turns the name of a portal into addresses within a deadline. The system's resolver knows none,
// and libiscsi calls it in the thread that serves the volume, so libiscsi gets addresses only.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace berth::iscsi {

// Gives the addresses of a host, "10.0.0.5" or "fe80::1"; may take long. UNAVAILABLE: there is
// none.
using LookUp = std::function<base::StatusOr<std::vector<std::string>>(const std::string& host)>;
base::StatusOr<std::vector<std::string>> LookUpBySystem(const std::string& host);

// `portal` is "HOST", "HOST:PORT", "[IPv6]" or "[IPv6]:PORT"; gives the same with addresses in the
// place of HOST. An address is not looked up. DEADLINE_EXCEEDED: the look-up has not ended; its
// thread ends by itself later. RESOURCE_EXHAUSTED: too many such threads have not ended yet.
base::StatusOr<std::vector<std::string>> ResolvePortal(
    const std::string& portal, std::chrono::steady_clock::time_point deadline,
    const LookUp& look_up = LookUpBySystem);

}  // namespace berth::iscsi
