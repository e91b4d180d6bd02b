// Finds out whether a folder answers.
#pragma once

#include <chrono>
#include <string>

#include "base/status.h"

namespace berth::platform {

// Opens `folder` in a child with a deadline, because a file system whose server (FUSE, network)
// hangs blocks every process that opens something in it. NOT_FOUND; DEADLINE_EXCEEDED.
base::Status ProbeFolder(const std::string& folder,
                         std::chrono::milliseconds timeout = std::chrono::seconds(10));

}  // namespace berth::platform
