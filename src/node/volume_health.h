// Asks drivers how the volumes of this node's pods do (CSI: volume_condition of
// NodeGetVolumeStats), and tells a pod when one of its volumes does not do well, or does well again
// (kubelet: CSIVolumeHealth).
//
//   each interval ── each volume that is set up ──▶ GetCondition ──▶ changed: event
//                                                    VolumeConditionAbnormal, VolumeConditionNormal
//
// A driver that does not answer holds up only its own volumes' questions, two at a time, and
// changes nothing of what was known. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "base/event_sink.h"
#include "base/keyed_workers.h"
#include "base/mutex.h"
#include "node/volume_units.h"

namespace berth::node {

class VolumeHealth {
 public:
  using Volumes = std::map<std::string, VolumeUnits::Ready>;

  // `volumes` gives those that are set up now, and is called from a worker; everything is borrowed
  // and outlives this.
  VolumeHealth(std::chrono::milliseconds interval, std::function<Volumes()> volumes,
               base::EventSink& events);
  ~VolumeHealth() { Stop(); }

  void Start();
  void Stop() { workers_.Stop(); }

 private:
  base::KeyedWorkers::Outcome Look();
  base::KeyedWorkers::Outcome Ask(const std::string& volume);

  const std::chrono::milliseconds interval_;
  const std::function<Volumes()> volumes_;
  base::EventSink& events_;
  base::Mutex mutex_;
  Volumes present_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> abnormal_ ABSL_GUARDED_BY(mutex_);  // why
  base::KeyedWorkers workers_;
};

}  // namespace berth::node
