// Hands committed changes to watchers, on a thread of its own.
//
// A watcher joins at a revision: what it missed is read from the table, first on the caller's
// thread, then for the last few changes on the fan-out thread, so that it sees each change once and
// in order, and a long history delays no other watcher. Thread-safe.
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
  // Reads changes of keys with `prefix` in (from, to].
  using ReadChanges = std::function<Status(std::string_view prefix, Revision from, Revision to,
                                           const std::function<void(const Change&)>& visit)>;

  FanOut(Revision delivered, ReadChanges read_changes);
  ~FanOut();

  // Queues a group of committed changes that ends at `revision`.
  void Publish(std::vector<Change> changes, Revision revision);

  // Adds a watcher that has seen all changes up to `from`.
  std::shared_ptr<void> Join(std::string prefix, Revision from, std::shared_ptr<Watcher> watcher);

  // Returns once no watcher that joined before still needs changes from the table.
  void WaitUntilCaughtUp();

 private:
  struct Member {
    std::string prefix;
    Revision seen;
    std::shared_ptr<Watcher> watcher;
    std::atomic<bool> caught_up{false};
    std::atomic<bool> gone{false};
  };
  struct Group {
    std::vector<Change> changes;
    Revision revision;
  };

  void Loop();
  void CatchUp(Member& member, Revision to);
  void ReadMissed(Member& member, Revision to);
  void Deliver(const Group& group, const std::vector<std::shared_ptr<Member>>& members);
  void RemoveMember(const std::shared_ptr<Member>& member);

  const ReadChanges read_changes_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Group> groups_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Member>> members_ ABSL_GUARDED_BY(mutex_);
  bool joined_ ABSL_GUARDED_BY(mutex_) = false;  // a watcher joined since the last round
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool delivering_ ABSL_GUARDED_BY(mutex_) = false;
  Revision delivered_ ABSL_GUARDED_BY(mutex_);
  std::thread::id thread_id_;
  std::jthread thread_;
};

}  // namespace berth::store
