// So many requests a second, after a burst of so many: each caller sleeps until its turn.
//
// Thread-safe. A turn that is given is used up, whatever the caller then does.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/mutex.h"
#include "base/status.h"

namespace berth::kube {

class Pace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `per_second` of 0 or less: no limit. A burst is at least 1.
  Pace(double per_second, int burst) : per_second_(per_second), burst_(std::max(burst, 1)) {}

  // DEADLINE_EXCEEDED, at once, if the turn comes after `deadline`; it is then not used up.
  base::Status Wait(Time deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (per_second_ <= 0) return base::OkStatus();
    const auto interval =
        std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(1 / per_second_));
    const auto now = std::chrono::steady_clock::now();
    Time mine;
    {
      base::MutexLock lock(mutex_);
      // A burst is what was saved up while nobody asked.
      turn_ = std::max(turn_, now - interval * (burst_ - 1));
      mine = turn_;
      if (mine >= deadline) {
        return base::Error(base::StatusCode::kDeadlineExceeded,
                           "its turn at {} requests a second comes too late", per_second_);
      }
      turn_ += interval;
    }
    std::this_thread::sleep_until(mine);
    return base::OkStatus();
  }

 private:
  const double per_second_;
  const int burst_;
  base::Mutex mutex_;
  // Of the next request, were there no burst. The clock may begin with the machine's start, which
  // is no time at which somebody asked.
  Time turn_ ABSL_GUARDED_BY(mutex_) = Time::min();
};

}  // namespace berth::kube
