// Measures how long it takes until snapshots and group snapshots are taken, are ready, and are
// deleted, by the changes of their VolumeSnapshots and VolumeGroupSnapshots. The metrics are
// snapshot_controller_operation_total_seconds and snapshot_controller_operations_in_flight, with
// the labels and buckets of the Go program.
//
//   seen ── creationTime ──▶ CreateSnapshot
//   seen ── readyToUse ──▶ CreateSnapshotAndReady
//   deletionTimestamp ── gone ──▶ DeleteSnapshot, and "cancel" for what of the above was under way,
//                                 which gets the time of the deletion, as in the Go program
//
// For groups the operations are CreateGroupSnapshot, CreateGroupSnapshotAndReady and
// DeleteGroupSnapshot.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "api/kinds/group_snapshots.h"
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
  // The same for a group.
  void NoteGroup(const api::VolumeGroupSnapshot& group, const std::string& driver)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteGroupDeletion(const api::VolumeGroupSnapshot& group, const std::string& driver)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Time = std::chrono::steady_clock::time_point;
  using Seconds = std::chrono::duration<double>;

  // The names of the operations on a kind, and the state of one of its objects.
  struct Operations;
  struct State;
  static const Operations kSnapshots, kGroups;
  template <typename T>
  static State StateOf(const T& object, const std::string& driver);

  void NoteState(const Operations& operations, const State& state) ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteEnd(const Operations& operations, const State& state) ABSL_LOCKS_EXCLUDED(mutex_);
  void BeginOperation(const char* operation, const std::string& uid)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Seconds SinceBegin(Time began);
  // `took` takes the place of the time since the operation began.
  void EndOperation(const char* operation, const State& state, const char* status,
                    std::optional<Seconds> took = std::nullopt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportInFlight() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Metrics* const metrics_;
  base::Mutex mutex_;
  // The time when each operation began, by operation and uid.
  std::map<std::pair<std::string, std::string>, Time> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::controllers::snapshotcontroller
