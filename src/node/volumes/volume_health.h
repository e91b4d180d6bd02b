// Asks drivers for the condition of the volumes of this node's pods (CSI: volume_condition of
// NodeGetVolumeStats), and reports to a pod in an event when one of its volumes becomes abnormal,
// or normal again (kubelet: CSIVolumeHealth). Also asks how full the volumes of claims are, for the
// metrics (volume_metrics.h). For a volume that is mounted in a sandbox, the runtime handler is
// asked.
//
//   each interval ── each volume that is set up ──▶ GetCondition ──▶ changed: event
//                                                    VolumeConditionAbnormal, VolumeConditionNormal
//                                               ──▶ GetStats ──▶ gauges
//
// A driver is asked about its volumes one after the other, so a driver that does not answer delays
// only the questions about its own volumes. The known conditions of these volumes stay as they
// were. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "base/event_sink.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "node/volumes/volume_metrics.h"
#include "node/volumes/volume_units.h"

namespace berth::node {

class VolumeHealth {
 public:
  using Volumes = std::map<std::string, VolumeUnits::Ready>;

  // `volumes` returns the volumes that are set up now, and is called from a worker. Everything is
  // borrowed and must outlive this object. If `metrics` is null, no metrics are kept.
  VolumeHealth(std::chrono::milliseconds interval, std::function<Volumes()> volumes,
               base::EventSink& events, base::Metrics* metrics);
  ~VolumeHealth() { Stop(); }

  void Start();
  void Stop() {
    stopping_ = true;
    workers_.Stop();
  }

 private:
  base::KeyedWorkers::Outcome CheckVolumes();
  base::KeyedWorkers::Outcome AskDriver(const std::string& driver);
  void ReadHealth(const std::string& key, const VolumeUnits::Ready& volume);
  // Reports a changed condition in an event. False: the driver does not answer.
  bool AskCondition(const std::string& key, const VolumeUnits::Ready& volume);

  const std::chrono::milliseconds interval_;
  const std::function<Volumes()> volumes_;
  base::EventSink& events_;
  VolumeMetrics volume_metrics_;
  std::atomic<bool> stopping_ = false;
  base::Mutex mutex_;
  Volumes present_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> abnormal_ ABSL_GUARDED_BY(mutex_);  // the driver's message
  base::KeyedWorkers workers_;
};

}  // namespace berth::node
