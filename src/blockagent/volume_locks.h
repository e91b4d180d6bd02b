// Locks by volume or by image: one holder at a time, and the next caller waits until a deadline.
// Thread-safe; outlives its holds.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"

namespace berth::blockagent {

class VolumeLocks {
 public:
  class Hold {
   public:
    Hold(VolumeLocks& locks, std::string volume) : locks_(&locks), volume_(std::move(volume)) {}
    Hold(Hold&& other) noexcept
        : locks_(std::exchange(other.locks_, nullptr)), volume_(std::move(other.volume_)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (locks_ != nullptr) locks_->Release(volume_);
    }

   private:
    VolumeLocks* locks_;
    std::string volume_;
  };

  // DEADLINE_EXCEEDED: it is still held.
  base::StatusOr<Hold> Take(const std::string& volume,
                            std::chrono::steady_clock::time_point deadline) {
    base::MutexLock lock(mutex_);
    while (held_.contains(volume)) {
      if (!freed_.WaitUntil(mutex_, deadline) && held_.contains(volume)) {
        return base::Error(base::StatusCode::kDeadlineExceeded,
                           "volume or image {} is still worked on by an earlier request",
                           base::Quote(volume));
      }
    }
    held_.insert(volume);
    return Hold(*this, volume);
  }

 private:
  void Release(const std::string& volume) {
    base::MutexLock lock(mutex_);
    held_.erase(volume);
    freed_.NotifyAll();
  }

  base::Mutex mutex_;
  base::CondVar freed_;
  std::set<std::string> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::blockagent
