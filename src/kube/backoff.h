// A doubling wait with jitter between attempts, which a stop request cuts short. Not thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <stop_token>

namespace berth::kube {

class Backoff {
 public:
  Backoff(std::chrono::milliseconds start, std::chrono::milliseconds max)
      : start_(start), max_(max), next_(start) {}

  void Reset() { next_ = start_; }

  // Waits between half of the present step and all of it; then the step doubles. False if stopped.
  bool Wait(const std::stop_token& stop) {
    const auto step = next_;
    next_ = std::min(next_ * 2, max_);
    std::uniform_int_distribution<int64_t> jitter(step.count() / 2, step.count());
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any wake;
    wake.wait_for(lock, stop, std::chrono::milliseconds(jitter(random_)), [] { return false; });
    return !stop.stop_requested();
  }

 private:
  const std::chrono::milliseconds start_;
  const std::chrono::milliseconds max_;
  std::chrono::milliseconds next_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace berth::kube
