// A fixed number of threads that run short jobs: requests' decoding, validation and SQL reads.
//
// Thread-safe. Jobs must not wait for other jobs.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace berth::apiserver {

class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool();  // as Stop
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False after Stop: the job is dropped.
  bool Post(std::function<void()> job);
  // Drops what is queued and waits for what runs. Idempotent.
  void Stop();

 private:
  void Loop();

  base::Mutex mutex_;
  base::CondVar ready_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_;
};

}  // namespace berth::apiserver
