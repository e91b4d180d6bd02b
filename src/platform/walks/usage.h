// Reads how full file systems and folders are.
#pragma once

#include <sys/statfs.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace berth::platform {

struct FileSystemUsage {
  int64_t total_bytes = 0, used_bytes = 0, available_bytes = 0;  // available: to non-root users
  int64_t total_inodes = 0, used_inodes = 0, available_inodes = 0;
};

// Computed from the answer of statfs(2).
FileSystemUsage UsageFrom(const struct statfs& fs);

// Calls statfs in a child process, so that a dead file system costs no more than `timeout`.
base::StatusOr<FileSystemUsage> GetFileSystemUsage(
    const std::string& path, std::chrono::milliseconds timeout = std::chrono::seconds(5));

// The bytes in blocks and the inodes of a folder tree, as du -x counts them: only on the folder's
// own file system, and each file with hard links once.
struct FolderUsage {
  int64_t bytes = 0, inodes = 0;
};
// DEADLINE_EXCEEDED: `deadline` passed, which is checked once per folder, or the root folder did
// not answer within 5 seconds. Entries that vanish meanwhile, and those nested more than 1,000
// deep, are not counted.
base::StatusOr<FolderUsage> GetFolderUsage(const std::string& path,
                                           std::chrono::steady_clock::time_point deadline);

}  // namespace berth::platform
