// How much room the file system of a pool has.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace berth::block {

struct Space {
  int64_t total = 0;
  int64_t free = 0;
  // Kept back for records, and for writes to the images that are there already.
  int64_t reserve() const;
};

base::StatusOr<Space> SpaceOf(const std::string& folder);

}  // namespace berth::block
