// Limits requests to a number per second, after a burst: each caller sleeps until its turn.
//
// Thread-safe. A turn that was given is used up, whatever the caller does then.
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
      // The burst is what has accumulated while nobody asked.
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
  // The turn of the next request, if there were no burst. It starts at the minimum, because the
  // clock may start with the machine, and at that time nobody asked.
  Time turn_ ABSL_GUARDED_BY(mutex_) = Time::min();
};

}  // namespace berth::kube
