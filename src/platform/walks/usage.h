// How full file systems and folders are.
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

// Bytes in blocks, and inodes, of a folder tree on one file system, hard links counted once, as du
// -x does.
struct FolderUsage {
  int64_t bytes = 0, inodes = 0;
};
// DEADLINE_EXCEEDED. Entries that vanish meanwhile are skipped.
base::StatusOr<FolderUsage> GetFolderUsage(const std::string& path,
                                           std::chrono::steady_clock::time_point deadline);

}  // namespace berth::platform
