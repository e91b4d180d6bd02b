#include "volume/exec/start_slots.h"

#include <algorithm>

namespace berth::volume {

std::unique_ptr<StartSlots::Slot> StartSlots::TakeSlot(const std::string& container,
                                                       TimePoint deadline) {
  base::MutexLock lock(mutex_);
  for (;;) {
    const TimePoint now = std::chrono::steady_clock::now();
    auto& young = young_[container];
    young.erase(young.begin(), young.upper_bound(now));
    if (young.size() < limits_.at_once) {
      const TimePoint until = now + limits_.young;
      young.insert(until);
      return std::make_unique<Slot>(*this, container, until);
    }
    if (now >= deadline) return nullptr;
    released_.WaitUntil(mutex_, std::min(*young.begin(), deadline));
  }
}

void StartSlots::ReleaseSlot(const std::string& container, TimePoint young_until) {
  base::MutexLock lock(mutex_);
  const auto of_container = young_.find(container);
  if (of_container == young_.end()) return;
  auto& young = of_container->second;
  if (const auto own = young.find(young_until); own != young.end()) young.erase(own);
  if (young.empty()) young_.erase(of_container);
  released_.NotifyAll();
}

}  // namespace berth::volume
