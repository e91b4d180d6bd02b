// Freezes a mounted file system for a bounded time (FIFREEZE), so that its device can be copied.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"

namespace berth::platform {

// A frozen file system. A child process freezes it. The child thaws it when Thaw is called, when
// this process dies for any reason, and when the limit has passed. So nothing stays frozen for
// ever.
class FrozenFileSystem {
 public:
  // Thaws, but only logs an error: call Thaw to get it.
  virtual ~FrozenFileSystem() = default;
  // Thaws. OK: the file system was frozen until now. DEADLINE_EXCEEDED: it was thawed before,
  // because the limit passed. INTERNAL: the child was killed, or the kernel could not thaw. After
  // an error the copy may be inconsistent and must be dropped. A second call does nothing.
  virtual base::Status Thaw() = 0;
};

// Flushes and freezes the file system mounted at `mount_point`. FAILED_PRECONDITION: it is frozen
// already. DEADLINE_EXCEEDED: it could not be frozen within `limit`. It is thawed as soon as the
// freeze succeeds, and the call waits for that, because the mount is busy until then; after ten
// more seconds it waits no longer. Other errors are those of open(2) and FIFREEZE.
base::StatusOr<std::unique_ptr<FrozenFileSystem>> FreezeFileSystem(const std::string& mount_point,
                                                                   std::chrono::milliseconds limit);

// Thaws a file system that an earlier, killed process may have left frozen; OK if it is not frozen.
// DEADLINE_EXCEEDED: the kernel did not answer within ten seconds.
base::Status ThawFileSystem(const std::string& mount_point);

}  // namespace berth::platform
