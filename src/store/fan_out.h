// Delivers committed changes to watchers, on a thread of its own.
//
// A watcher is added at a revision. Store::Watch has delivered the changes up to that revision on
// the caller's thread before, so that a long history delays no other watcher. The fan-out thread
// reads the few changes after that revision from the table, so that the watcher gets each change
// once and in order. A watcher whose changes cannot be read is dropped, and told so, because a gap
// would stay unnoticed. Thread-safe.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "store/store.h"

namespace berth::store {

class FanOut {
 public:
  // Calls `visit` with the changes of keys with `prefix` in revisions (from, to].
  using ReadChanges = std::function<Status(std::string_view prefix, Revision from, Revision to,
                                           const std::function<void(const Change&)>& visit)>;

  // Changes up to `delivered` are not delivered any more.
  FanOut(Revision delivered, ReadChanges read_changes);
  // Drops the changes that are not delivered yet.
  ~FanOut();

  // Queues a group of committed changes that ends at `revision`.
  void QueueChanges(std::vector<Change> changes, Revision revision);

  // Adds a watcher that has seen all changes up to `from`. The returned handle is that of
  // Store::Watch.
  std::shared_ptr<void> AddWatcher(std::string prefix, Revision from,
                                   std::shared_ptr<Watcher> watcher);

  // Waits until no watcher that was added before needs changes from the table any more.
  void WaitUntilCaughtUp();

 private:
  struct Member {
    std::string prefix;
    Revision seen;  // all changes up to it were delivered
    std::shared_ptr<Watcher> watcher;
    std::atomic<bool> caught_up{false};
    std::atomic<bool> gone{false};
  };
  struct Group {
    std::vector<Change> changes;
    Revision revision;
  };

  void DeliveryLoop();
  // Delivers the changes up to `to` that the member has not seen, from the table.
  void DeliverMissed(const std::shared_ptr<Member>& member, Revision to);
  void DropMember(const std::shared_ptr<Member>& member, const Status& why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void DeliverGroup(const Group& group, const std::vector<std::shared_ptr<Member>>& members);
  void RemoveMember(const std::shared_ptr<Member>& member);

  const ReadChanges read_changes_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Group> groups_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Member>> members_ ABSL_GUARDED_BY(mutex_);
  bool added_ ABSL_GUARDED_BY(mutex_) = false;  // a watcher was added since the last round
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool delivering_ ABSL_GUARDED_BY(mutex_) = false;
  Revision delivered_ ABSL_GUARDED_BY(mutex_);
  std::thread::id thread_id_;
  std::jthread thread_;
};

}  // namespace berth::store
