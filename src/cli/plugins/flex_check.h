// `berth flex check`: finds what is wrong with a Flexvolume driver, before it is installed.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "volume/flex/check/driver_check.h"

namespace berth::cli {

// Parses pairs "NAME=VALUE". INVALID_ARGUMENT: a pair has no '=' or no name; the message does not
// repeat the pair, because it may be a secret.
base::StatusOr<std::map<std::string, std::string>> ParsePairs(
    const std::vector<std::string>& pairs);

// Returns one line for each finding, and a last line with their number.
std::string FormatCheck(const std::string& driver, const volume::DriverCheckReport& report);

// Checks the driver on this host and prints the findings. FAILED_PRECONDITION: the driver has
// faults; a driver with remarks only is OK. Other errors are those of volume::CheckDriver.
base::Status RunFlexCheck(const volume::DriverCheckOptions& options);

}  // namespace berth::cli
