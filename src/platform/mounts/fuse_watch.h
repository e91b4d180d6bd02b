// Reports at once when no process serves a FUSE mount any more.
//
//   mount table changes ─▶ FUSE mounts, connections ─▶ who serves each (fuse_server.h) ─▶ a pidfd
//   a pidfd says "ended", or a minute is over ─▶ does anyone serve it still?
//       ─▶ nobody, and a child that asks hears ENOTCONN ─▶ on_lost
//
// The watch has one thread, which itself touches no mount. It reports each mount once. A check each
// minute finds what the events miss: a server that closes /dev/fuse and lives on, or a mount whose
// server the kernel does not name.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "platform/mounts/fuse_server.h"

namespace berth::platform {

struct LostFuse {
  uint64_t connection = 0;
  // The mount points in this process's mount namespace that were not reported before.
  std::vector<std::string> mount_points;
  std::string type, source;  // of the mount
  struct Ended {
    FuseServer server;
    std::optional<int> wait_status;  // waitpid(2); nullopt: not known
  };
  // The processes that served it, or may have served it, and were seen to end. Empty: there were
  // none, for example because the server had ended before the watch began.
  std::vector<Ended> ended;
};

class FuseWatch {
 public:
  virtual ~FuseWatch() = default;
};

// Watches the FUSE mounts beneath `folder`, an absolute path without symlinks. `on_lost` is called
// on the watch's own thread and must not wait for a mount. Destroying the watch waits for a running
// call.
base::StatusOr<std::unique_ptr<FuseWatch>> WatchFuse(
    const std::string& folder, std::function<void(const LostFuse& lost)> on_lost);

}  // namespace berth::platform
