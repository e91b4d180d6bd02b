// Holds a mounted file system still while its device is copied (FIFREEZE), for a bounded time.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"

namespace berth::platform {

// A frozen file system. A child process freezes it and thaws it: when it is told to, when this
// process dies for any reason, and when `limit` has passed. So nothing stays frozen for ever.
class FrozenFileSystem {
 public:
  // Thaws, but loses errors: call Thaw to get them.
  virtual ~FrozenFileSystem() = default;
  // Thaws, and tells whether the file system was frozen all the time until now. DEADLINE_EXCEEDED:
  // the limit passed before, so that a copy made meanwhile may be torn and must be dropped.
  virtual base::Status Thaw() = 0;
};

// Flushes and freezes the file system mounted at `mount_point`. FAILED_PRECONDITION: it is frozen
// already. DEADLINE_EXCEEDED: it could not be frozen within `limit`; if the freeze still succeeds
// later, it is thawed at once.
base::StatusOr<std::unique_ptr<FrozenFileSystem>> FreezeFileSystem(const std::string& mount_point,
                                                                   std::chrono::milliseconds limit);

// Thaws a file system that a killed predecessor may have left frozen; OK if it is not frozen.
base::Status ThawFileSystem(const std::string& mount_point);

}  // namespace berth::platform
