// Measures how much space the file system of a pool has.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace berth::block {

struct Space {  // in bytes
  int64_t total = 0;
  int64_t free = 0;  // for unprivileged users
  // Bytes that new images may not take, because records and writes to existing images need them.
  int64_t reserve() const;
};

// Reads the space of the file system that has `folder`. The errors are statvfs(3)'s.
base::StatusOr<Space> ReadSpace(const std::string& folder);

}  // namespace berth::block
