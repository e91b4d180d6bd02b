#include "controllers/snapshotcontroller/operation_times.h"

namespace berth::controllers::snapshotcontroller {

using base::MutexLock;

struct OperationTimes::Operations {
  const char* create;
  const char* create_and_ready;
  const char* remove;
};

struct OperationTimes::State {
  std::string uid;
  std::string driver;
  bool existing;  // it was there before the object
  bool taken;
  bool ready;
  bool deleting;
};

namespace {

const base::Metrics::Description& TotalSeconds() {
  static const base::Metrics::Description& description = *new base::Metrics::Description{
      .name = "snapshot_controller_operation_total_seconds",
      .help = "Total number of seconds spent by the controller on an operation",
      .buckets = {.1, .25, .5, 1, 2.5, 5, 10, 15, 30, 60, 120, 300, 600}};
  return description;
}

const base::Metrics::Description& InFlight() {
  static const base::Metrics::Description& description =
      *new base::Metrics::Description{.name = "snapshot_controller_operations_in_flight",
                                      .help = "Total number of operations in flight"};
  return description;
}

}  // namespace

const OperationTimes::Operations OperationTimes::kSnapshots{
    .create = "CreateSnapshot",
    .create_and_ready = "CreateSnapshotAndReady",
    .remove = "DeleteSnapshot"};
const OperationTimes::Operations OperationTimes::kGroups{
    .create = "CreateGroupSnapshot",
    .create_and_ready = "CreateGroupSnapshotAndReady",
    .remove = "DeleteGroupSnapshot"};

template <typename T>
OperationTimes::State OperationTimes::StateOf(const T& object, const std::string& driver) {
  return {.uid = object.uid(),
          .driver = driver.empty() ? "unknown" : driver,
          .existing = !object.source_content().empty(),
          .taken = !object.creation_time().empty(),
          .ready = object.ready(),
          .deleting = object.deleting()};
}

OperationTimes::Seconds OperationTimes::SinceBegin(Time began) {
  return std::chrono::steady_clock::now() - began;
}

void OperationTimes::BeginOperation(const char* operation, const std::string& uid) {
  under_way_.try_emplace({operation, uid}, std::chrono::steady_clock::now());
}

void OperationTimes::EndOperation(const char* operation, const State& state, const char* status,
                                  std::optional<Seconds> took) {
  const auto it = under_way_.find({operation, state.uid});
  if (it == under_way_.end()) return;
  metrics_->Observe(TotalSeconds(),
                    {{"driver_name", state.driver},
                     {"operation_name", operation},
                     {"snapshot_type", state.existing ? "pre-provisioned" : "dynamic"},
                     {"operation_status", status}},
                    took.value_or(SinceBegin(it->second)).count());
  under_way_.erase(it);
}

void OperationTimes::ReportInFlight() {
  metrics_->Set(InFlight(), {}, static_cast<double>(under_way_.size()));
}

void OperationTimes::NoteState(const Operations& operations, const State& state) {
  if (metrics_ == nullptr) return;
  MutexLock lock(mutex_);
  if (state.deleting) {
    BeginOperation(operations.remove, state.uid);
  } else {
    if (!state.taken && !state.ready) BeginOperation(operations.create, state.uid);
    if (!state.ready) BeginOperation(operations.create_and_ready, state.uid);
    if (state.taken) EndOperation(operations.create, state, "success");
    if (state.ready) EndOperation(operations.create_and_ready, state, "success");
  }
  ReportInFlight();
}

void OperationTimes::NoteEnd(const Operations& operations, const State& state) {
  if (metrics_ == nullptr) return;
  MutexLock lock(mutex_);
  const auto removal = under_way_.find({operations.remove, state.uid});
  std::optional<Seconds> took;
  if (removal != under_way_.end()) took = SinceBegin(removal->second);
  EndOperation(operations.remove, state, "success", took);
  EndOperation(operations.create, state, "cancel", took);
  EndOperation(operations.create_and_ready, state, "cancel", took);
  ReportInFlight();
}

void OperationTimes::NoteSnapshot(const api::VolumeSnapshot& snapshot, const std::string& driver) {
  NoteState(kSnapshots, StateOf(snapshot, driver));
}

void OperationTimes::NoteDeletion(const api::VolumeSnapshot& snapshot, const std::string& driver) {
  NoteEnd(kSnapshots, StateOf(snapshot, driver));
}

void OperationTimes::NoteGroup(const api::VolumeGroupSnapshot& group, const std::string& driver) {
  NoteState(kGroups, StateOf(group, driver));
}

void OperationTimes::NoteGroupDeletion(const api::VolumeGroupSnapshot& group,
                                       const std::string& driver) {
  NoteEnd(kGroups, StateOf(group, driver));
}

}  // namespace berth::controllers::snapshotcontroller
