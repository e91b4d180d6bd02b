// Finds out whether a folder answers.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "platform/mounts/mounter.h"

namespace berth::platform {

// Opens `folder` in a child with a deadline, because a file system whose server (FUSE, network)
// hangs blocks every process that opens something in it. OK: it was opened. NOT_FOUND;
// DEADLINE_EXCEEDED: it does not answer; INTERNAL: it is no folder, or the file system failed.
base::Status ProbeFolder(const std::string& folder,
                         std::chrono::milliseconds timeout = std::chrono::seconds(10));

// The mount of `table` on the way to `path`, or at it, whose file system a server answers for (over
// the network, or FUSE), so that it may hang; nullptr: there is none. Paths are compared as text:
// `path` is absolute and without symlinks.
const MountEntry* FindServedMount(const std::vector<MountEntry>& table, std::string_view path);

}  // namespace berth::platform
