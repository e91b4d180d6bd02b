// Ends what calls that died left of their use of an image: exclusive locks and watches. librbd
// would break such a lock by itself, but the one of Ceph 16 cannot: it names the time for which the
// client is on the blocklist in a way that the monitors refuse. And it takes a client that died for
// alive until the cluster drops its watch, half a minute later.
//
// A call is known by its record (records.h), which each client writes before it opens an image. A
// client that is recorded as a process that serves a volume, or as one of the kernel, is left
// alone, whatever it does not answer: those end only by a fence (lock.h).
//
// A call is dead if it does not watch the image, as all clients do that have its lock, or if it
// does not answer within kAnswerTime. It may be only frozen, so it is put on the blocklist before
// its lock is broken, and then writes no more. It is no harm if it lives after all: it fails, and
// its caller makes it again.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "rbd/image.h"
#include "rbd/records.h"

namespace berth::rbd {

// How long a client may take to answer. An answer takes milliseconds. The whole call that asks has
// to tell within 10 s what keeps it from its work.
inline constexpr std::chrono::seconds kAnswerTime(4);

// The users of one image, and what is done to those that died.
class ImageUsers {
 public:
  virtual ~ImageUsers() = default;
  // The number of this client, which is left out.
  virtual uint64_t own_id() const = 0;
  virtual base::StatusOr<std::vector<Locker>> ListLockers() = 0;
  virtual base::StatusOr<std::vector<Watcher>> ListWatchers() = 0;
  virtual base::StatusOr<std::vector<ClientRecord>> ListClients() = 0;
  // The numbers of the clients that watch the image and answer within kAnswerTime. It waits for the
  // last of the others until then.
  virtual base::StatusOr<std::set<uint64_t>> ListAnswering() = 0;
  // Returns when no OSD does anything for the client any more, and its watch is gone.
  virtual base::Status Fence(const std::string& address) = 0;
  virtual base::Status BreakLock(const Locker& locker) = 0;
  virtual base::Status RemoveClients(const std::vector<ClientRecord>& clients) = 0;
};

// How a client is treated that locks or watches the image, and is not recorded.
enum class Unrecorded {
  kForeign,  // no client of Berth: it is left alone
  kCall      // a call, because nobody else uses an image that is not complete
};

// Fences the calls that died and still lock or watch the image, breaks their locks, and removes
// their records. OK also if there are none, or if others use the image.
base::Status EndDeadCalls(ImageUsers& users, Unrecorded unrecorded);
base::Status EndDeadCalls(const Image& image, Unrecorded unrecorded);

}  // namespace berth::rbd
