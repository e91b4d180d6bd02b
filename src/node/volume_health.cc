#include "node/volume_health.h"

#include "base/log.h"

namespace berth::node {
namespace {

using base::MutexLock;
using Outcome = base::KeyedWorkers::Outcome;

// No volume's key: those hold a space.
constexpr std::string_view kAll = "all";

}  // namespace

VolumeHealth::VolumeHealth(std::chrono::milliseconds interval, std::function<Volumes()> volumes,
                           base::EventSink& events)
    : interval_(interval),
      volumes_(std::move(volumes)),
      events_(events),
      // One for the round, two for drivers that are slow to answer.
      workers_({.name = "volume-health", .workers = 3},
               [this](const std::string& key) { return key == kAll ? Look() : Ask(key); }) {}

void VolumeHealth::Start() {
  workers_.Start();
  workers_.AddAfter(std::string(kAll), interval_);
}

Outcome VolumeHealth::Look() {
  Volumes volumes = volumes_();
  for (const auto& [key, volume] : volumes) workers_.Add(key);
  MutexLock lock(mutex_);
  std::erase_if(abnormal_, [&](const auto& entry) { return !volumes.contains(entry.first); });
  present_ = std::move(volumes);
  return Outcome::After(interval_);
}

Outcome VolumeHealth::Ask(const std::string& key) {
  VolumeUnits::Ready volume;
  {
    MutexLock lock(mutex_);
    const auto found = present_.find(key);
    if (found == present_.end()) return Outcome::Done();
    volume = found->second;
  }
  const auto condition = volume.plugin->GetCondition(volume.record);
  if (!condition.ok()) {
    LOG_DEBUG("how volume {} does is not known: {}", base::Quote(volume.record.folder_name),
              base::ToString(condition.status()));
    return Outcome::Done();
  }
  if (!condition->has_value()) return Outcome::Done();
  const bool abnormal = (*condition)->abnormal;
  const std::string& message = (*condition)->message;
  bool changed = false;
  {
    MutexLock lock(mutex_);
    const auto known = abnormal_.find(key);
    changed =
        abnormal ? known == abnormal_.end() || known->second != message : known != abnormal_.end();
    if (abnormal) {
      abnormal_[key] = message;
    } else {
      abnormal_.erase(key);
    }
  }
  if (!changed) return Outcome::Done();
  events_.Record(volume.pod, abnormal ? base::EventType::kWarning : base::EventType::kNormal,
                 abnormal ? "VolumeConditionAbnormal" : "VolumeConditionNormal",
                 fmt::format("Volume {}: {}", volume.name,
                             message.empty() ? "the driver gives no reason" : message));
  return Outcome::Done();
}

}  // namespace berth::node
