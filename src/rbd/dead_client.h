// Ends the lock of a client that died. librbd would do it by itself, but the one of Ceph 16 cannot:
// it names the time for which the client is on the blocklist in a way that the monitors refuse, so
// that each call that needs the lock fails for as long as the lock is there.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "rbd/cluster.h"
#include "rbd/image.h"

namespace berth::rbd {

// Whether the client of the lock still watches the image, as all clients do that have its lock. The
// cluster drops the watch of one that has not answered for half a minute.
bool IsAlive(const std::vector<Watcher>& watchers, const Locker& locker);

// Puts the client of the lock on the blocklist, and then breaks the lock, so that the client writes
// no more even if it was only frozen. OK also if the client does not have the lock any more; then
// nothing is done to it. The caller found after it had seen the lock that the client is not alive,
// and that it is no process that serves a volume: those end only by a fence (lock.h).
base::Status BreakLockOfDead(const Cluster& cluster, const std::string& image_id,
                             const Locker& locker);

}  // namespace berth::rbd
