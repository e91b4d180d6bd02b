// A bounded number of threads behind a bounded queue. A thread that must not block (an event loop,
// gRPC's callback threads) hands its work over and returns. Threads are started as they are needed,
// and end when they have had nothing to do for a while.
//
// Thread-safe. Tasks must not wait for other tasks of the same pool.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace berth::base {

class WorkerPool {
 public:
  struct Options {
    std::string name;  // of the threads, cut to 15 bytes
    size_t max_threads = 4;
    size_t max_queued = std::numeric_limits<size_t>::max();
    std::chrono::milliseconds idle_time{5000};  // after which a thread ends
  };

  explicit WorkerPool(Options options);
  // Runs all queued tasks and waits until they have ended, unless Stop dropped them.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Queues `task`. False: it is not accepted, because Stop was called, `max_queued` tasks wait, or
  // the pool has no thread and none can be started, which is logged.
  bool Post(std::function<void()> task);
  // Drops the queued tasks and waits for the running ones. Tasks must not call it. Idempotent.
  void Stop();

 private:
  void WorkerLoop();
  // Starts a thread. False: the system refused it.
  bool AddThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for a task. False: this thread is to end.
  bool WaitForTask() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void JoinThreads();

  const Options options_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<std::jthread> threads_ ABSL_GUARDED_BY(mutex_);
  std::jthread ended_ ABSL_GUARDED_BY(mutex_);  // the thread that ended last, not yet joined
};

}  // namespace berth::base
