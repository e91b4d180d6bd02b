#include "rbd/dead_client.h"

#include <algorithm>

#include "base/log.h"
#include "rbd/blocklist.h"

namespace berth::rbd {

using base::Quote;

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
  RETURN_IF_ERROR(WaitForBlocklist(cluster));
  RETURN_IF_ERROR(BreakLock(cluster, image_id, locker));
  LOG_INFO(
      "{} died with the lock of the image with id {}: it is on the blocklist, and its lock is "
      "broken",
      Quote(locker.address), image_id);
  return base::OkStatus();
}

}  // namespace berth::rbd
