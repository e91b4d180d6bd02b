// The time behind an interface, so that a test can control it. Wall time goes into API objects;
// deadlines and backoff use std::chrono::steady_clock directly and are not faked.
#pragma once

#include <atomic>
#include <chrono>

namespace berth::base {

using WallTime = std::chrono::system_clock::time_point;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime Now() const = 0;
};

class SystemClock : public Clock {
 public:
  WallTime Now() const override { return std::chrono::system_clock::now(); }
};

// Starts at 2026-01-01T00:00:00Z and moves only when a test calls Advance.
class FakeClock : public Clock {
 public:
  WallTime Now() const override {
    return WallTime(std::chrono::seconds(1767225600) + offset_.load());
  }
  void Advance(std::chrono::nanoseconds by) {
    offset_ = offset_.load() + std::chrono::duration_cast<WallTime::duration>(by);
  }

 private:
  std::atomic<WallTime::duration> offset_{WallTime::duration::zero()};
};

}  // namespace berth::base
