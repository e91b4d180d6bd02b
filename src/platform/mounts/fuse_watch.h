// Reports at once when nobody serves a FUSE mount any more.
//
//   mount table changes ─▶ FUSE mounts, connections ─▶ who serves each (fuse_server.h) ─▶ a pidfd
//   a pidfd says "ended", or a minute is over ─▶ does anyone serve it still?
//       ─▶ nobody, and a child that asks hears ENOTCONN ─▶ on_lost
//
// It is one thread, which touches no mount itself. It reports each mount once. What the events miss
// (a server that closes /dev/fuse and lives on, a kernel that does not say who serves what) is
// found by the look each minute.
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
  std::vector<std::string> mount_points;  // in this process's mount namespace; not reported before
  std::string type, source;               // of the mount
  struct Ended {
    FuseServer server;
    std::optional<int> wait_status;
  };
  // The processes that served it, or may have. Empty: they had ended before the first look.
  std::vector<Ended> ended;
};

class FuseWatch {
 public:
  virtual ~FuseWatch() = default;
};

// Watches the mounts beneath `folder`. `on_lost` is called on the watch's own thread and must not
// wait for a mount. Destroying the watch waits for a running call.
base::StatusOr<std::unique_ptr<FuseWatch>> WatchFuse(
    const std::string& folder, std::function<void(const LostFuse& lost)> on_lost);

}  // namespace berth::platform
