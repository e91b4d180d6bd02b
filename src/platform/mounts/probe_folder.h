// Finds out whether a folder answers.
#pragma once

#include <chrono>
#include <string>

#include "base/status.h"

namespace berth::platform {

// Opens `folder` in a child with a deadline, because a file system whose server (FUSE, network)
// hangs blocks every process that opens something in it. OK: it was opened. NOT_FOUND;
// DEADLINE_EXCEEDED: it does not answer; INTERNAL: it is no folder, or the file system failed.
base::Status ProbeFolder(const std::string& folder,
                         std::chrono::milliseconds timeout = std::chrono::seconds(10));

}  // namespace berth::platform
