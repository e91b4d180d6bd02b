// The names of EBS volumes in in-tree sources: "vol-1", or a URL with the volume's zone as host:
// "aws://us-east-1a/vol-1", "aws:///vol-1". Pure.
#pragma once

#include <string>

#include "base/status.h"

namespace berth::api::migration {

// The driver's handle for the volume: the URL's path, or the whole name if it is no such URL.
// INVALID_ARGUMENT, with the words of Go's net/url, if it is a malformed one. What stands between
// '[' and ']' in the host is not checked.
base::StatusOr<std::string> ParseEbsVolumeId(const std::string& name);

}  // namespace berth::api::migration
