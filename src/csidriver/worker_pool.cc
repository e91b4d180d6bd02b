#include "csidriver/worker_pool.h"

namespace berth::csidriver {

WorkerPool::~WorkerPool() {
  std::vector<std::jthread> threads;
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    threads = std::move(threads_);
  }
  changed_.NotifyAll();
}

bool WorkerPool::Submit(std::function<void()> task) {
  {
    base::MutexLock lock(mutex_);
    if (stopping_ || queue_.size() >= max_queued_) return false;
    queue_.push_back(std::move(task));
    // A thread that was woken for an earlier task counts as idle until it runs.
    if (queue_.size() > idle_ && threads_.size() < max_threads_) {
      threads_.emplace_back([this] { Loop(); });
    }
  }
  changed_.NotifyOne();
  return true;
}

void WorkerPool::Loop() {
  while (true) {
    std::function<void()> task;
    {
      base::MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) {
        ++idle_;
        changed_.Wait(mutex_);
        --idle_;
      }
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

}  // namespace berth::csidriver
