// Serves watches: sends each change to the watching clients, as one line of JSON or one protobuf
// frame for each event.
//
//   existing objects (if asked) ─▶ past events ─▶ live events ─▶ ended: time-out, client gone,
//                                                                or client too slow
//
// The existing objects and the past events are sent in pages. Each page is sent after the client
// has received the previous one.
//
// An event is rendered once and shared by all watchers with the same form. A client that does not
// read is disconnected when its exchange's queue is full. It does not delay other clients, because
// delivery never blocks.
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
  ~WatchService();  // calls EndAll

  // Answers the request with a stream of events, or with an error. Called on a worker.
  void StartWatch(const ResourceRequest& request);
  // Called each second: sends bookmarks and ends watches whose time is up. Does not block.
  void Tick();
  // Ends the watches of kinds that `kinds` does not contain. Does not block.
  void EndUnserved(const ServedKinds& kinds);
  // Ends all watches, and ends each later one as soon as it starts.
  void EndAll();

 private:
  friend class Watch;
  void RemoveWatch(const std::shared_ptr<Watch>& watch) ABSL_LOCKS_EXCLUDED(mutex_);

  ApiContext& context_;
  const std::shared_ptr<EventCache> events_;
  base::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_set<std::shared_ptr<Watch>> watches_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::apiserver
