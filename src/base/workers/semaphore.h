// A semaphore whose permits are objects, so that every way out of a function releases them. It
// bounds how many workers do work that may take long. Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <stop_token>

#include "base/mutex.h"

namespace berth::base {

class Semaphore {
 public:
  struct Release {
    void operator()(Semaphore* semaphore) const {
      MutexLock lock(semaphore->mutex_);
      ++semaphore->free_;
      semaphore->released_.NotifyOne();
    }
  };
  // Must not outlive the semaphore.
  using Permit = std::unique_ptr<Semaphore, Release>;

  explicit Semaphore(size_t permits) : free_(permits) {}

  // Null: all permits were in use for all of `patience`, or until `stop`.
  Permit Acquire(std::chrono::milliseconds patience, const std::stop_token& stop = {}) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    const std::stop_callback wake(stop, [this] {
      MutexLock lock(mutex_);
      released_.NotifyAll();
    });
    MutexLock lock(mutex_);
    while (free_ == 0) {
      if (stop.stop_requested()) return nullptr;
      if (!released_.WaitUntil(mutex_, deadline) && free_ == 0) return nullptr;
    }
    --free_;
    return Permit(this);
  }

 private:
  Mutex mutex_;
  CondVar released_;
  size_t free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::base
