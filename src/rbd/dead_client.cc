#include "rbd/dead_client.h"

#include <errno.h>

#include <algorithm>

#include "base/log.h"
#include "rbd/rbd_error.h"

namespace berth::rbd {

using base::Error;
using base::Quote;
using base::StatusCode;

base::Status AddToBlocklist(const Cluster& cluster, const std::string& address) {
  std::string text = address;
  const int result = rados_blocklist_add(cluster.handle(), text.data(), kBlocklistSeconds);
  if (result >= 0) return base::OkStatus();
  if (result == -EACCES || result == -EPERM) {
    return Error(StatusCode::kPermissionDenied,
                 "the user may not put {} on the blocklist: it needs the capability mon 'profile "
                 "rbd'",
                 Quote(address));
  }
  return RbdError(result, fmt::format("put {} on the blocklist", Quote(address)));
}

bool IsAlive(const std::vector<Watcher>& watchers, const Locker& locker) {
  return std::any_of(watchers.begin(), watchers.end(), [&locker](const Watcher& watcher) {
    return watcher.client_id == locker.client_id;
  });
}

base::Status BreakLockOfDead(const Cluster& cluster, const std::string& image_id,
                             const Locker& locker) {
  // A call that ended in order gave the lock back before its watch, and may have more to do.
  ASSIGN_OR_RETURN(const auto lockers, ListLockers(cluster, image_id));
  const bool is_held = std::any_of(lockers.begin(), lockers.end(), [&locker](const Locker& held) {
    return held.client == locker.client && held.cookie == locker.cookie;
  });
  if (!is_held) return base::OkStatus();
  RETURN_IF_ERROR(AddToBlocklist(cluster, locker.address));
  if (const int result = rados_wait_for_latest_osdmap(cluster.handle()); result < 0) {
    return RbdError(result, "wait for the OSD map that has the blocklist");
  }
  RETURN_IF_ERROR(BreakLock(cluster, image_id, locker));
  LOG_INFO(
      "{} died with the lock of the image with id {}: it is on the blocklist, and its lock is "
      "broken",
      Quote(locker.address), image_id);
  return base::OkStatus();
}

}  // namespace berth::rbd
