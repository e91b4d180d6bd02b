// Turns what librados and librbd return into a Status, in words for the administrator.
#pragma once

#include <string_view>

#include "base/status.h"

namespace berth::rbd {

// `result` is what a call returned: a negative errno. The codes are those of platform::ErrnoError,
// with these of the storage's own:
//   RESOURCE_EXHAUSTED   ENOSPC (the pool or the cluster is full) and EDQUOT (the pool's quota)
//   DEADLINE_EXCEEDED    ETIMEDOUT: no answer in time; the outcome is unknown
//   FAILED_PRECONDITION  ESHUTDOWN: the cluster refuses this client, because a fence put it on the
//                        blocklist. EROFS: another client has the image's lock. EBUSY: another
//                        client uses the image. ENOTEMPTY: it has snapshots
//   UNAVAILABLE          ENOTCONN, ECONNREFUSED, EHOSTUNREACH, ENETUNREACH
base::Status RbdError(int result, std::string_view context);

}  // namespace berth::rbd
