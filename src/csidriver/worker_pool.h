// A fixed number of threads behind a bounded queue: gRPC's callback threads hand each call over and
// return. Thread-safe. The destructor runs what is queued to its end, so that every accepted call
// is answered.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace berth::csidriver {

class WorkerPool {
 public:
  WorkerPool(size_t max_threads, size_t max_queued)
      : max_threads_(max_threads), max_queued_(max_queued) {}
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False when `max_queued` tasks wait already; `task` is then not taken.
  bool Submit(std::function<void()> task);

 private:
  void Loop();

  const size_t max_threads_;
  const size_t max_queued_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::jthread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::csidriver
