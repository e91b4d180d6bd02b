// Waits between attempts, with jitter and a time that doubles. A stop request ends a wait. Not
// thread-safe.
#pragma once

#include <chrono>
#include <random>
#include <stop_token>

#include "base/pause.h"

namespace berth::kube {

class Backoff {
 public:
  Backoff(std::chrono::milliseconds start, std::chrono::milliseconds max)
      : start_(start), max_(max), next_(start) {}

  // The next wait begins with the step `start` again.
  void Reset() { next_ = start_; }

  // Waits for a random time between half of the step and the whole step. Then the step doubles, up
  // to `max`. Returns false if `stop` was requested.
  bool Wait(const std::stop_token& stop) {
    const auto step = next_;
    next_ = std::min(next_ * 2, max_);
    std::uniform_int_distribution<int64_t> jitter(step.count() / 2, step.count());
    return base::SleepFor(stop, std::chrono::milliseconds(jitter(random_)));
  }

 private:
  const std::chrono::milliseconds start_;
  const std::chrono::milliseconds max_;
  std::chrono::milliseconds next_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace berth::kube
