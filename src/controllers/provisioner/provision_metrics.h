// The provisioner's metrics, with the names, labels and buckets of the Go program:
// controller_persistentvolumeclaim_provision_* and controller_persistentvolume_delete_*.
#pragma once

#include <chrono>

#include "api/kinds/kinds.h"
#include "base/metrics.h"

namespace berth::controllers::provisioner {

// If `metrics` is null, nothing is counted. For failures no duration is recorded.
void CountProvisioned(base::Metrics* metrics, const api::PersistentVolumeClaim& claim,
                      std::chrono::steady_clock::time_point began);
void CountProvisionFailed(base::Metrics* metrics, const api::PersistentVolumeClaim& claim);
void CountDeleted(base::Metrics* metrics, const api::PersistentVolume& volume,
                  std::chrono::steady_clock::time_point began);
void CountDeleteFailed(base::Metrics* metrics, const api::PersistentVolume& volume);

}  // namespace berth::controllers::provisioner
