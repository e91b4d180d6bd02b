#include "base/workers/worker_pool.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace berth::base {

WorkerPool::WorkerPool(Options options) : options_(std::move(options)) {}

WorkerPool::~WorkerPool() { JoinThreads(); }

bool WorkerPool::AddThread() {
  try {
    threads_.emplace_back([this] {
      pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
      WorkerLoop();
    });
  } catch (const std::system_error& error) {
    LOG_ERROR("{}: cannot start another thread: {}", options_.name, error.what());
    return false;
  }
  return true;
}

bool WorkerPool::Post(std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    if (stopping_ || queue_.size() >= options_.max_queued) return false;
    queue_.push_back(std::move(task));
    // A thread that was woken for an earlier task counts as idle until it runs.
    if (queue_.size() > idle_ && threads_.size() < options_.max_threads && !AddThread() &&
        threads_.empty()) {
      task = std::move(queue_.back());  // the only one; it is destroyed without the lock
      queue_.pop_back();
      return false;
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
  std::list<std::jthread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    threads.push_back(std::move(ended_));
  }
  changed_.NotifyAll();
}

bool WorkerPool::WaitForTask() {
  bool expired = false;
  while (queue_.empty() && !stopping_) {
    if (expired) return false;
    ++idle_;
    // A wake-up may come together with the end of the time, so the queue is looked at again.
    expired = !changed_.WaitUntil(mutex_, std::chrono::steady_clock::now() + options_.idle_time);
    --idle_;
  }
  return !queue_.empty();
}

void WorkerPool::RemoveThread() {
  const auto self = std::find_if(threads_.begin(), threads_.end(), [](const std::jthread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
  // JoinThreads has taken the threads.
  if (self == threads_.end()) return;
  // A thread cannot join itself, so the next one that ends, or JoinThreads, joins this one. The
  // assignment joins the one that ended before, which holds no lock any more.
  ended_ = std::move(*self);
  threads_.erase(self);
}

void WorkerPool::WorkerLoop() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      if (!WaitForTask()) {
        RemoveThread();
        return;
      }
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

}  // namespace berth::base
