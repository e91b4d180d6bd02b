// How much room the file system of a pool has.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace berth::block {

struct Space {
  int64_t total = 0;
  int64_t free = 0;
  // Bytes that new images may not take, because records and writes to existing images need them.
  int64_t reserve() const;
};

base::StatusOr<Space> SpaceOf(const std::string& folder);

}  // namespace berth::block
