// Limits how many utilities start at once in one container.
//
// containerd's shim reports the end of a process only between the starts of others. If more than 32
// ends wait, it reports one per second. If 50 runs start at once, the end of the last is known only
// after a minute; if eight start at a time, after five seconds. So a run waits while `at_once`
// others are young. A run that takes long no longer counts as young, so a run that hangs does not
// delay others. Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/mutex.h"

namespace berth::volume {

struct StartLimits {
  size_t at_once = 8;                     // in one container
  std::chrono::milliseconds young{5000};  // since the run's start
};

class StartSlots {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // The slot of a run; the run holds it as long as it goes on. Borrows the slots.
  class Slot {
   public:
    Slot(StartSlots& slots, std::string container, TimePoint young_until)
        : slots_(slots), container_(std::move(container)), young_until_(young_until) {}
    ~Slot() { slots_.ReleaseSlot(container_, young_until_); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

   private:
    StartSlots& slots_;
    const std::string container_;
    const TimePoint young_until_;
  };

  explicit StartSlots(const StartLimits& limits) : limits_(limits) {}

  // Waits for a slot of the container. nullptr: none was free until `deadline`.
  std::unique_ptr<Slot> TakeSlot(const std::string& container, TimePoint deadline);

 private:
  void ReleaseSlot(const std::string& container, TimePoint young_until);

  const StartLimits limits_;
  base::Mutex mutex_;
  base::CondVar released_;
  // For each container, the times until which its runs are young.
  std::map<std::string, std::multiset<TimePoint>> young_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::volume
