// Measures how much space the file system of a pool has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"

namespace berth::block {

struct Space {  // in bytes
  int64_t total = 0;
  int64_t free = 0;  // for unprivileged users
  // What new images may not take, because records and writes to existing images need it.
  int64_t kept = 0;
};

// Reads the space of the file system that has `folder`. `keep_free` is what new images may not
// take; nullopt: a fiftieth of the file system, at most 64 MiB. The errors are statvfs(3)'s.
base::StatusOr<Space> ReadSpace(const std::string& folder, std::optional<int64_t> keep_free);

}  // namespace berth::block
