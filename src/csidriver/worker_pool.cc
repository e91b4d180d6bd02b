#include "csidriver/worker_pool.h"

namespace berth::csidriver {

WorkerPool::WorkerPool(int threads, size_t max_queued) : max_queued_(max_queued) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

WorkerPool::~WorkerPool() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  threads_.clear();
}

bool WorkerPool::Submit(std::function<void()> task) {
  {
    base::MutexLock lock(mutex_);
    if (stopping_ || queue_.size() >= max_queued_) return false;
    queue_.push_back(std::move(task));
  }
  changed_.NotifyOne();
  return true;
}

void WorkerPool::Loop() {
  while (true) {
    std::function<void()> task;
    {
      base::MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) changed_.Wait(mutex_);
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

}  // namespace berth::csidriver
