// Remembers when the storage was last found to be usable, so that a back end asks for that once a
// minute at most. Thread-safe.
#pragma once

#include <chrono>
#include <optional>

#include "base/mutex.h"

namespace berth::block {

class StorageCheck {
 public:
  // Whether a check passed within the last minute, and nothing has changed since.
  bool IsRecent() const ABSL_LOCKS_EXCLUDED(mutex_) {
    base::MutexLock lock(mutex_);
    return passed_.has_value() &&
           std::chrono::steady_clock::now() - *passed_ < std::chrono::minutes(1);
  }
  void NotePassed() ABSL_LOCKS_EXCLUDED(mutex_) {
    base::MutexLock lock(mutex_);
    passed_ = std::chrono::steady_clock::now();
  }
  void Forget() ABSL_LOCKS_EXCLUDED(mutex_) {
    base::MutexLock lock(mutex_);
    passed_.reset();
  }

 private:
  mutable base::Mutex mutex_;
  // Not the clock's zero, which is the machine's start and may be less than a minute ago.
  std::optional<std::chrono::steady_clock::time_point> passed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::block
