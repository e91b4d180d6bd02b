#include "apiserver/worker_pool.h"

#include <pthread.h>

namespace berth::apiserver {

WorkerPool::WorkerPool(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      pthread_setname_np(pthread_self(), "api-worker");
      Loop();
    });
  }
}

WorkerPool::~WorkerPool() { Stop(); }

bool WorkerPool::Post(std::function<void()> job) {
  base::MutexLock lock(mutex_);
  if (stopping_) return false;
  jobs_.push_back(std::move(job));
  ready_.NotifyOne();
  return true;
}

void WorkerPool::Stop() {
  std::deque<std::function<void()>> dropped;  // destroyed without the lock: captures may call back
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(jobs_);
    ready_.NotifyAll();
  }
  dropped.clear();
  threads_.clear();
}

void WorkerPool::Loop() {
  while (true) {
    std::function<void()> job;
    {
      base::MutexLock lock(mutex_);
      while (jobs_.empty() && !stopping_) ready_.Wait(mutex_);
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace berth::apiserver
