// Copies image files. The copy shares extents if the file system can do so (FICLONE); else only
// allocated data is copied.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/status.h"

namespace berth::platform {

struct CopyOptions {
  // These three do not apply to a clone by reference, which is done in one step.
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  std::function<bool()> cancelled;  // asked every 16 MiB at most; may be empty
  // Gets the part of the size that is done, from 0 to 1, after each 16 MiB at most; may be empty.
  std::function<void(double)> report;
  bool reflink = true;  // false: always copy
};

enum class CopyMethod { kReflink, kSparseCopy };

// Makes the file `to` (open for writing, empty) a copy of `from` with the same size and holes, and
// syncs it. DEADLINE_EXCEEDED or CANCELLED: `to` is half made; RESOURCE_EXHAUSTED: no space.
base::StatusOr<CopyMethod> CopyImage(int from, int to, const CopyOptions& options);

// True if files in `folder` can share extents, which is tried with two unnamed files.
base::StatusOr<bool> CanReflink(const std::string& folder);

}  // namespace berth::platform
