// Caches the latest changes, so that all watchers share the parsed objects and rendered events of a
// change.
//
// Both classes are thread-safe. Changes come in revision order, so a few entries serve all watchers
// of a live stream.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>

#include "apiserver/renderer.h"
#include "base/json.h"
#include "base/mutex.h"
#include "http/message.h"
#include "store/store.h"

namespace berth::apiserver {

class CachedChange {
 public:
  explicit CachedChange(const store::Change& change) : change_(change) {}

  const store::Change& change() const { return change_; }
  // The object after and before the change, in the stored form. They are parsed at the first call.
  // After a delete, after() is the last object. A damaged object is an empty object, and so is
  // before() if the change created the object.
  const base::Json& after() ABSL_LOCKS_EXCLUDED(mutex_);
  const base::Json& before() ABSL_LOCKS_EXCLUDED(mutex_);
  // The object that an event of `type` shows. If an update moved the object out of the watcher's
  // selector (DELETED), it is the object before the change, with the revision of the change.
  store::Record ShownRecord(std::string_view type) const;
  // Renders the watch event of this change as a chunk, or returns the cached chunk. `type` is
  // ADDED, MODIFIED or DELETED. The event of a table has no columns.
  http::Frame RenderEvent(std::string_view type, const Renderer& renderer)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const store::Change change_;
  base::Mutex mutex_;
  std::unique_ptr<const base::Json> after_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<const base::Json> before_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, http::Frame> frames_ ABSL_GUARDED_BY(mutex_);
};

class EventCache {
 public:
  // Returns the entry of `change`, and makes it if it is not cached.
  std::shared_ptr<CachedChange> FindOrAdd(const store::Change& change) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  base::Mutex mutex_;
  std::array<std::shared_ptr<CachedChange>, 8> latest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::apiserver
