// Reports errors as an OCI runtime does: on standard error, and in the log file that its caller
// names.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "cmd/berth-oci/arguments.h"

namespace berth::oci {

// Returns a line in the format of runc's log, in JSON or as text.
std::string FormatLogLine(std::string_view message, time_t when, bool json);

// Writes `message` to both, and returns the exit code 1.
int ReportFailure(const Arguments& arguments, const std::string& message);

}  // namespace berth::oci
