#include "base/workers/worker_pool.h"

#include <pthread.h>

#include <utility>

namespace berth::base {

WorkerPool::WorkerPool(Options options) : options_(std::move(options)) {}

WorkerPool::~WorkerPool() { JoinThreads(); }

bool WorkerPool::Post(std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    if (stopping_ || queue_.size() >= options_.max_queued) return false;
    queue_.push_back(std::move(task));
    // A thread that was woken for an earlier task counts as idle until it runs.
    if (queue_.size() > idle_ && threads_.size() < options_.max_threads) {
      threads_.emplace_back([this] {
        pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
        WorkerLoop();
      });
    }
  }
  changed_.NotifyOne();
  return true;
}

void WorkerPool::Stop() {
  std::deque<std::function<void()>>
      dropped;  // destroyed without the lock, because captures may call Post
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(queue_);
  }
  dropped.clear();
  JoinThreads();
}

void WorkerPool::JoinThreads() {
  std::vector<std::jthread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    threads = std::move(threads_);
  }
  changed_.NotifyAll();
}

void WorkerPool::WorkerLoop() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
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

}  // namespace berth::base
