// `berth flex check`: finds what is wrong with a Flexvolume driver, before it is installed.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "volume/flex/check/driver_check.h"

namespace berth::cli {

// "NAME=VALUE" each; INVALID_ARGUMENT otherwise.
base::StatusOr<std::map<std::string, std::string>> ParsePairs(
    const std::vector<std::string>& pairs);

// The text of the findings, one after the other, and a last line that counts them.
std::string FormatCheck(const std::string& driver, const volume::DriverCheckReport& report);

// Prints the findings. FAILED_PRECONDITION: the driver has faults; remarks alone are OK.
base::Status FlexCheck(const volume::DriverCheckOptions& options);

}  // namespace berth::cli
