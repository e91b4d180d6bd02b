// Measures how long it takes until snapshots are taken, are ready, and are deleted, by the changes
// of their VolumeSnapshots. The metrics are snapshot_controller_operation_total_seconds and
// snapshot_controller_operations_in_flight, with the labels and buckets of the Go program.
//
//   seen ── creationTime ──▶ CreateSnapshot (not of one that was there before)
//   seen ── readyToUse ──▶ CreateSnapshotAndReady
//   deletionTimestamp ── gone ──▶ DeleteSnapshot, and "cancel" for what of the above was under way
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "api/kinds/snapshots.h"
#include "base/metrics.h"
#include "base/mutex.h"

namespace berth::controllers::snapshotcontroller {

class OperationTimes {
 public:
  // `metrics` is borrowed; if it is null, nothing is counted.
  explicit OperationTimes(base::Metrics* metrics) : metrics_(metrics) {}

  // To be called when `snapshot` is new or has changed; `driver` is "" while it is not known.
  void NoteSnapshot(const api::VolumeSnapshot& snapshot, const std::string& driver)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // To be called when the VolumeSnapshot is gone.
  void NoteDeletion(const api::VolumeSnapshot& snapshot, const std::string& driver)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Time = std::chrono::steady_clock::time_point;

  void BeginOperation(const char* operation, const std::string& uid)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndOperation(const char* operation, const api::VolumeSnapshot& snapshot,
                    const std::string& driver, const char* status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportInFlight() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Metrics* const metrics_;
  base::Mutex mutex_;
  // The time when each operation began, by operation and uid.
  std::map<std::pair<std::string, std::string>, Time> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::controllers::snapshotcontroller
