// Reports errors as an OCI runtime does: on standard error, and in the log that its caller named.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "cmd/berth-oci/arguments.h"

namespace berth::oci {

// A line of runc's log, in JSON or as text.
std::string LogLine(std::string_view message, time_t when, bool json);

// Writes `message` to both, and returns the exit code.
int Fail(const Arguments& arguments, const std::string& message);

}  // namespace berth::oci
