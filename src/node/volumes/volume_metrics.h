// The metrics that say how full the volumes of claims are, with the kubelet's names:
// kubelet_volume_stats_capacity_bytes, _available_bytes, _used_bytes, _inodes, _inodes_free and
// _inodes_used, by namespace and persistentvolumeclaim. Thread-safe.
#pragma once

#include <set>
#include <string>

#include "base/metrics.h"
#include "base/mutex.h"
#include "volume/volume_plugin.h"

namespace berth::node {

class VolumeMetrics {
 public:
  // `metrics` is borrowed; null: no metrics are kept.
  explicit VolumeMetrics(base::Metrics* metrics) : metrics_(metrics) {}

  bool wanted() const { return metrics_ != nullptr; }
  // `claim`: its key, "namespace/name".
  void SetMetrics(const std::string& claim, const volume::VolumePlugin::Stats& stats);
  // Removes the metrics of the claims that are not in `claims`.
  void RetainClaims(const std::set<std::string>& claims);

 private:
  base::Metrics* const metrics_;
  base::Mutex mutex_;
  std::set<std::string> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::node
