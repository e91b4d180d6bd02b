// How many utilities begin at once in one container.
//
// containerd's shim tells that a process ended only between the starts of others, and where more
// than 32 ends wait to be told it tells one a second: of 50 runs that begin at once the last is
// known to have ended after a minute, of eight at a time after five seconds. So a run waits while
// as many others are young. One that goes on for long is young no more: what hangs holds nobody up.
// Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/mutex.h"

namespace berth::volume {

struct StartLimits {
  size_t at_once = 8;
  std::chrono::milliseconds young{5000};
};

class StartSlots {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // A run's, as long as it goes on. Borrows the slots.
  class Slot {
   public:
    Slot(StartSlots& slots, std::string container, TimePoint young_until)
        : slots_(slots), container_(std::move(container)), young_until_(young_until) {}
    ~Slot() { slots_.Release(container_, young_until_); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

   private:
    StartSlots& slots_;
    const std::string container_;
    const TimePoint young_until_;
  };

  explicit StartSlots(const StartLimits& limits) : limits_(limits) {}

  // Waits for one. Null: there was none until `deadline`.
  std::unique_ptr<Slot> Take(const std::string& container, TimePoint deadline);

 private:
  void Release(const std::string& container, TimePoint young_until);

  const StartLimits limits_;
  base::Mutex mutex_;
  base::CondVar released_;
  // Of each container's young runs, until when they are.
  std::map<std::string, std::multiset<TimePoint>> young_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::volume
