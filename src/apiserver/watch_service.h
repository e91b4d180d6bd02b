// Watches: what changes goes to each client as one line of JSON per event.
//
//   what is there (if asked) ─▶ what happened since ─▶ live ─▶ ended: time-out, client gone,
//                                                              or client too slow
//
// The first two go out in pages, each when the client has taken the one before.
//
// Events are rendered once and shared by all watchers that see them alike. A client that does not
// read is cut off by its exchange's bound; it holds up nobody, since delivery never blocks.
#pragma once

#include <chrono>
#include <memory>
#include <unordered_set>

#include "apiserver/api_context.h"
#include "base/mutex.h"

namespace berth::apiserver {

class EventCache;
class Watch;

class WatchService {
 public:
  explicit WatchService(ApiContext& context);
  ~WatchService();  // as EndAll

  // On a worker.
  void Start(const ResourceRequest& request);
  // Each second: bookmarks and time-outs. Does not block.
  void Tick();
  // Ends the watches of kinds that are not among `kinds`. Does not block.
  void EndUnserved(const ServedKinds& kinds);
  // Ends all watches, and those that come.
  void EndAll();

 private:
  friend class Watch;
  void Forget(const std::shared_ptr<Watch>& watch) ABSL_LOCKS_EXCLUDED(mutex_);

  ApiContext& context_;
  const std::shared_ptr<EventCache> events_;
  base::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_set<std::shared_ptr<Watch>> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::apiserver
