#include "rbd/watchdog.h"

#include <utility>

namespace berth::rbd {

Watchdog::Watchdog(std::chrono::milliseconds limit, std::function<void()> on_late)
    : limit_(limit), on_late_(std::move(on_late)), thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  const base::MutexLock lock(mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

std::multiset<Watchdog::Clock::time_point>::iterator Watchdog::AddDeadline() {
  const base::MutexLock lock(mutex_);
  const auto entry = deadlines_.insert(Clock::now() + limit_);
  // Later deadlines change nothing for the thread, which wakes for the earliest.
  if (deadlines_.size() == 1) changed_.NotifyAll();
  return entry;
}

void Watchdog::RemoveDeadline(std::multiset<Clock::time_point>::iterator entry) {
  const base::MutexLock lock(mutex_);
  deadlines_.erase(entry);
}

void Watchdog::Run() {
  {
    const base::MutexLock lock(mutex_);
    for (;;) {
      if (stopped_) return;
      if (deadlines_.empty()) {
        changed_.Wait(mutex_);
        continue;
      }
      const Clock::time_point earliest = *deadlines_.begin();
      if (Clock::now() >= earliest) break;
      changed_.WaitUntil(mutex_, earliest);
    }
  }
  on_late_();
}

}  // namespace berth::rbd
