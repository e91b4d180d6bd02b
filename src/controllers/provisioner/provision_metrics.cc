#include "controllers/provisioner/provision_metrics.h"

#include <string>

namespace berth::controllers::provisioner {

namespace {

using Description = base::Metrics::Description;
using base::Metrics;

// The default buckets of Prometheus.
const std::vector<double>& Buckets() {
  static const auto& buckets =
      *new std::vector<double>{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10};
  return buckets;
}

// The three metrics of an operation.
struct OperationMetrics {
  Description total, failed, seconds;

  void Succeeded(Metrics* metrics, const Metrics::Labels& labels,
                 std::chrono::steady_clock::time_point began) const {
    if (metrics == nullptr) return;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    metrics->Observe(seconds, labels, took.count());
    metrics->Count(total, labels);
  }
  void Failed(Metrics* metrics, const Metrics::Labels& labels) const {
    if (metrics != nullptr) metrics->Count(failed, labels);
  }
};

const OperationMetrics& Provisions() {
  static const OperationMetrics& metrics = *new OperationMetrics{
      {.name = "controller_persistentvolumeclaim_provision_total",
       .help = "Volumes provisioned, by class and kind of the claim's source"},
      {.name = "controller_persistentvolumeclaim_provision_failed_total",
       .help = "Attempts to provision a volume that failed, by class and kind of the source"},
      {.name = "controller_persistentvolumeclaim_provision_duration_seconds",
       .help = "Time that volumes took to be provisioned, by class and kind of the source",
       .buckets = Buckets()}};
  return metrics;
}

const OperationMetrics& Deletions() {
  static const OperationMetrics& metrics = *new OperationMetrics{
      {.name = "controller_persistentvolume_delete_total", .help = "Volumes deleted, by class"},
      {.name = "controller_persistentvolume_delete_failed_total",
       .help = "Attempts to delete a volume that failed, by class"},
      {.name = "controller_persistentvolume_delete_duration_seconds",
       .help = "Time that volumes took to be deleted, by class",
       .buckets = Buckets()}};
  return metrics;
}

Metrics::Labels LabelsOf(const api::PersistentVolumeClaim& claim) {
  return {{"class", claim.storage_class_name().value_or("")},
          {"source", claim.String({"spec", "dataSource", "kind"})}};
}
Metrics::Labels LabelsOf(const api::PersistentVolume& volume) {
  return {{"class", volume.storage_class_name()}};
}

}  // namespace

void CountProvisioned(Metrics* metrics, const api::PersistentVolumeClaim& claim,
                      std::chrono::steady_clock::time_point began) {
  Provisions().Succeeded(metrics, LabelsOf(claim), began);
}
void CountProvisionFailed(Metrics* metrics, const api::PersistentVolumeClaim& claim) {
  Provisions().Failed(metrics, LabelsOf(claim));
}
void CountDeleted(Metrics* metrics, const api::PersistentVolume& volume,
                  std::chrono::steady_clock::time_point began) {
  Deletions().Succeeded(metrics, LabelsOf(volume), began);
}
void CountDeleteFailed(Metrics* metrics, const api::PersistentVolume& volume) {
  Deletions().Failed(metrics, LabelsOf(volume));
}

}  // namespace berth::controllers::provisioner
