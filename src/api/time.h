// Reads and writes times of the API: RFC 3339 in UTC, in seconds (Time) or microseconds
// (MicroTime). Writes the age of an object as kubectl does. Pure and thread-safe.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace berth::api {

// "2026-01-01T00:00:00Z"; fractions are cut off.
std::string FormatTime(base::WallTime time);
// "2026-01-01T00:00:00.000000Z"
std::string FormatMicroTime(base::WallTime time);

// Parses any RFC 3339 time, also with a fraction of up to nine digits and with an offset.
// INVALID_ARGUMENT: `text` is malformed, or its year is before 1678 or after 2261, which WallTime
// (nanoseconds in 64 bits) cannot hold.
base::StatusOr<base::WallTime> ParseTime(std::string_view text);

// The form of kubectl's column AGE: "45s", "5m30s", "23m", "4h5m", "30h", "3d4h", "400d", "3y10d".
// "<invalid>" for an age below -1 s.
std::string FormatAge(std::chrono::seconds age);

// FormatAge of the time from `timestamp` to `now`; "<unknown>" if `timestamp` is empty or
// malformed.
std::string AgeSince(std::string_view timestamp, base::WallTime now);

}  // namespace berth::api
