// Turns the name of a host into its addresses within a deadline, because the system's resolver
// knows none: getaddrinfo cannot be called off, and may take minutes where a name server is silent.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace berth::platform {

// Gives the addresses of a host, "10.0.0.5" or "fe80::1", in the order in which they should be
// tried; may take long. UNAVAILABLE: there is none.
using LookUp = std::function<base::StatusOr<std::vector<std::string>>(const std::string& host)>;
base::StatusOr<std::vector<std::string>> LookUpBySystem(const std::string& host);

// Whether `host` is an IPv4 or IPv6 address, without brackets.
bool IsIpAddress(const std::string& host);

// Gives at least one address of `host`. An address is not looked up. UNAVAILABLE: the name has no
// address. DEADLINE_EXCEEDED: the look-up has not ended; its thread ends by itself later.
// RESOURCE_EXHAUSTED: too many such threads have not ended yet.
base::StatusOr<std::vector<std::string>> ResolveHost(const std::string& host,
                                                     std::chrono::steady_clock::time_point deadline,
                                                     const LookUp& look_up = LookUpBySystem);

}  // namespace berth::platform
