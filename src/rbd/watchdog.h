// Limits the time of what cannot be limited otherwise: a call of librbd that waits for the cluster
// cannot be given up while the process lives, because its buffer and what it may still do to the
// image go on to exist.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <thread>

#include "base/mutex.h"

namespace berth::rbd {

class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;

  // Calls `on_late` once, on a thread of its own, if a Watch lives longer than `limit`.
  Watchdog(std::chrono::milliseconds limit, std::function<void()> on_late);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // One thing that has to end in time. It must not outlive the watchdog.
  class Watch {
   public:
    explicit Watch(Watchdog& watchdog) : watchdog_(watchdog), entry_(watchdog.AddDeadline()) {}
    ~Watch() { watchdog_.RemoveDeadline(entry_); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    Watchdog& watchdog_;
    const std::multiset<Clock::time_point>::iterator entry_;
  };

 private:
  std::multiset<Clock::time_point>::iterator AddDeadline();
  void RemoveDeadline(std::multiset<Clock::time_point>::iterator entry);
  void Run();

  const std::chrono::milliseconds limit_;
  const std::function<void()> on_late_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::multiset<Clock::time_point> deadlines_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace berth::rbd
