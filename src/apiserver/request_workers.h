// The threads that serve requests, shared among their senders, so that nobody's slow requests make
// all of them busy.
//
//   owners   root, administrators and the server itself: all threads
//   nodes    node agents and block agents: together with the others all but one; each agent half
//   others   all other users, and strangers by their address: together half; each a quarter
//
// A task that does not get a thread waits. When a thread is free, the shares take turns, and so do
// the senders of a share; the tasks of a sender run in their order. Who the sender is depends on
// what his connection has shown before (http::Request::known), because a token is judged by a
// worker.
//
// Thread-safe. Tasks must not wait for other tasks.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/workers/worker_pool.h"
#include "http/message.h"

namespace berth::apiserver {

class RequestWorkers {
 public:
  using Task = std::function<void()>;

  explicit RequestWorkers(size_t threads);
  // Waits until the running tasks have ended.
  ~RequestWorkers() { Stop(); }

  // Queues a task of the server itself. False: Stop was called, or no thread can be started for it.
  bool Post(Task task);
  // Queues a task that serves `request`. False: as above.
  bool Post(const http::Request& request, Task task);
  // Drops the queued tasks and waits for the running ones. Tasks must not call it. Idempotent.
  void Stop();

 private:
  enum class Share { kOwner, kNode, kOther };
  using Sender = std::pair<Share, std::string>;
  struct Numbered {
    uint64_t number;
    Task task;
  };
  struct Queue {
    std::deque<Numbered> waiting;
    size_t running = 0;
  };
  struct ShareState {
    std::deque<Sender> turns;  // the senders whose tasks wait
    size_t running = 0;
  };
  struct Started {
    Sender sender;
    uint64_t number;
    Task task;
  };

  static Sender FindSender(const http::Request& request);
  bool PostFor(Sender sender, Task task);
  // Removes the task that may run next, and counts it as running; nullopt: none may.
  std::optional<Started> StartNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t MostOfSender(Share share) const;
  bool MayRun(Share share) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes back that `refused` has started, for which there is no thread, and then task `number` of
  // `sender`. False: that one will not run.
  bool TakeBack(Started& refused, const Sender& sender, uint64_t number);
  // Counts a started task as ended.
  void CountEnd(const Sender& sender) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EraseIfUnused(const Sender& sender) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs tasks until none may run next. Runs on a thread of the pool.
  void RunTasks(Started started);

  ShareState& Of(Share share) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return shares_[static_cast<size_t>(share)];
  }
  const ShareState& Of(Share share) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return shares_[static_cast<size_t>(share)];
  }

  const size_t threads_;
  base::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<Sender, Queue> queues_ ABSL_GUARDED_BY(mutex_);
  std::array<ShareState, 3> shares_ ABSL_GUARDED_BY(mutex_);
  size_t next_share_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  base::WorkerPool pool_;
};

}  // namespace berth::apiserver
