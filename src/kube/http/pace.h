// Limits requests to a number per second, after a burst. Each caller sleeps until its turn.
//
// Thread-safe. The turn of a caller that waited is used up, even if the caller then sends nothing.
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

  // Sleeps until the caller's turn. DEADLINE_EXCEEDED, at once: the turn would come after
  // `deadline`; it is not used up.
  base::Status WaitForTurn(Time deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (per_second_ <= 0) return base::OkStatus();
    const auto interval =
        std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(1 / per_second_));
    const auto now = std::chrono::steady_clock::now();
    Time caller_turn;
    {
      base::MutexLock lock(mutex_);
      // Turns accumulate while there are no requests, but not more than the burst.
      turn_ = std::max(turn_, now - interval * (burst_ - 1));
      caller_turn = turn_;
      if (caller_turn >= deadline) {
        return base::Error(
            base::StatusCode::kDeadlineExceeded,
            "the limit of {} requests a second delays the request beyond its deadline",
            per_second_);
      }
      turn_ += interval;
    }
    std::this_thread::sleep_until(caller_turn);
    return base::OkStatus();
  }

 private:
  const double per_second_;
  const int burst_;
  base::Mutex mutex_;
  // The turn of the next request. It begins at the minimum and not at zero, because the clock may
  // start with the machine, and then the first requests would not get the whole burst.
  Time turn_ ABSL_GUARDED_BY(mutex_) = Time::min();
};

}  // namespace berth::kube
