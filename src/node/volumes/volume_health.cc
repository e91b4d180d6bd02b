#include "node/volumes/volume_health.h"

#include <set>

#include "base/log.h"

namespace berth::node {
namespace {

using base::MutexLock;
using Outcome = base::KeyedWorkers::Outcome;

// The key of the round over all volumes; it is not the name of a driver.
constexpr std::string_view kAll = " all";
constexpr int kMaxWorkers = 16;

}  // namespace

VolumeHealth::VolumeHealth(std::chrono::milliseconds interval, std::function<Volumes()> volumes,
                           base::EventSink& events, base::Metrics* metrics)
    : interval_(interval),
      volumes_(std::move(volumes)),
      events_(events),
      volume_metrics_(metrics),
      // One worker is for the round and one for the drivers. More are started while drivers do not
      // answer.
      workers_({.name = "volume-health", .workers = 2, .max_workers = kMaxWorkers},
               [this](const std::string& key) {
                 return key == kAll ? CheckVolumes() : AskDriver(key);
               }) {}

void VolumeHealth::Start() {
  workers_.Start();
  workers_.AddAfter(std::string(kAll), interval_);
}

Outcome VolumeHealth::CheckVolumes() {
  Volumes volumes = volumes_();
  std::set<std::string> drivers;
  std::set<std::string> claims;
  for (const auto& [key, volume] : volumes) {
    drivers.insert(volume.driver);
    claims.insert(volume.claim);
  }
  volume_metrics_.RetainClaims(claims);
  {
    MutexLock lock(mutex_);
    std::erase_if(abnormal_, [&](const auto& entry) { return !volumes.contains(entry.first); });
    present_ = std::move(volumes);
  }
  for (const std::string& driver : drivers) workers_.Add(driver);
  return Outcome::After(interval_);
}

Outcome VolumeHealth::AskDriver(const std::string& driver) {
  Volumes volumes;
  {
    MutexLock lock(mutex_);
    volumes = present_;
  }
  for (const auto& [key, volume] : volumes) {
    if (stopping_) break;
    if (volume.driver == driver) ReadHealth(key, volume);
  }
  return Outcome::Done();
}

void VolumeHealth::ReadHealth(const std::string& key, const VolumeUnits::Ready& volume) {
  if (!AskCondition(key, volume) || volume.claim.empty() || !volume_metrics_.wanted()) return;
  const auto stats = volume.plugin->GetStats(volume.record);
  if (stats.ok()) {
    volume_metrics_.SetMetrics(volume.claim, *stats);
  } else if (stats.status().code() != base::StatusCode::kUnimplemented) {
    LOG_DEBUG("read the usage of volume {}: {}", base::Quote(volume.record.folder_name),
              base::ToString(stats.status()));
  }
}

bool VolumeHealth::AskCondition(const std::string& key, const VolumeUnits::Ready& volume) {
  const auto condition = volume.plugin->GetCondition(volume.record);
  if (!condition.ok()) {
    LOG_DEBUG("read the condition of volume {}: {}", base::Quote(volume.record.folder_name),
              base::ToString(condition.status()));
    return false;
  }
  if (!condition->has_value()) return true;
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
  if (!changed) return true;
  events_.Record(volume.pod, abnormal ? base::EventType::kWarning : base::EventType::kNormal,
                 abnormal ? "VolumeConditionAbnormal" : "VolumeConditionNormal",
                 fmt::format("Volume {}: {}", volume.name,
                             message.empty() ? "the driver gives no reason" : message));
  return true;
}

}  // namespace berth::node
