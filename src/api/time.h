// Times of the API: RFC 3339 in UTC, by the second (Time) or the microsecond (MicroTime), and how
// long ago one was, as kubectl prints it. Pure and thread-safe.
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

// Any RFC 3339 time: with a fraction of up to nine digits and with an offset. INVALID_ARGUMENT
// otherwise, and for years that WallTime (nanoseconds in 64 bits) cannot hold: before 1678 and
// after 2261.
base::StatusOr<base::WallTime> ParseTime(std::string_view text);

// As kubectl's AGE: "45s", "5m30s", "23m", "4h5m", "30h", "3d4h", "400d", "3y10d".
std::string FormatAge(std::chrono::seconds age);

// FormatAge since `timestamp`; "<unknown>" if it is absent or malformed.
std::string AgeSince(std::string_view timestamp, base::WallTime now);

}  // namespace berth::api
