#include "node/volumes/volume_metrics.h"

namespace berth::node {
namespace {

using Stats = volume::VolumePlugin::Stats;

struct Metric {
  base::Metrics::Description description;
  int64_t Stats::* of;
};

const Metric kMetrics[] = {
    {{.name = "kubelet_volume_stats_capacity_bytes", .help = "Capacity in bytes of the volume"},
     &Stats::total_bytes},
    {{.name = "kubelet_volume_stats_available_bytes",
      .help = "Number of available bytes in the volume"},
     &Stats::available_bytes},
    {{.name = "kubelet_volume_stats_used_bytes", .help = "Number of used bytes in the volume"},
     &Stats::used_bytes},
    {{.name = "kubelet_volume_stats_inodes", .help = "Maximum number of inodes in the volume"},
     &Stats::total_inodes},
    {{.name = "kubelet_volume_stats_inodes_free", .help = "Number of free inodes in the volume"},
     &Stats::available_inodes},
    {{.name = "kubelet_volume_stats_inodes_used", .help = "Number of used inodes in the volume"},
     &Stats::used_inodes},
};

base::Metrics::Labels LabelsOf(const std::string& claim) {
  const size_t slash = claim.find('/');
  return {{"namespace", claim.substr(0, slash)},
          {"persistentvolumeclaim", claim.substr(slash + 1)}};
}

}  // namespace

void VolumeMetrics::SetMetrics(const std::string& claim, const Stats& stats) {
  if (metrics_ == nullptr) return;
  base::MutexLock lock(mutex_);
  known_.insert(claim);
  for (const Metric& metric : kMetrics) {
    metrics_->Set(metric.description, LabelsOf(claim), static_cast<double>(stats.*metric.of));
  }
}

void VolumeMetrics::RetainClaims(const std::set<std::string>& claims) {
  if (metrics_ == nullptr) return;
  base::MutexLock lock(mutex_);
  std::erase_if(known_, [&](const std::string& claim) {
    if (claims.contains(claim)) return false;
    for (const Metric& metric : kMetrics) metrics_->Remove(metric.description, LabelsOf(claim));
    return true;
  });
}

}  // namespace berth::node
