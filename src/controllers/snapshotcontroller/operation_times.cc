#include "controllers/snapshotcontroller/operation_times.h"

namespace berth::controllers::snapshotcontroller {

using base::MutexLock;

struct OperationTimes::Operations {
  const char* create;
  const char* create_and_ready;
  const char* remove;
  bool creates_existing;  // whether `create` is measured for what was there before, too
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

const base::Metrics::Description& Seconds() {
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
    .remove = "DeleteSnapshot",
    .creates_existing = false};
const OperationTimes::Operations OperationTimes::kGroups{
    .create = "CreateGroupSnapshot",
    .create_and_ready = "CreateGroupSnapshotAndReady",
    .remove = "DeleteGroupSnapshot",
    .creates_existing = true};

template <typename T>
OperationTimes::State OperationTimes::StateOf(const T& object, const std::string& driver) {
  return {.uid = object.uid(),
          .driver = driver.empty() ? "unknown" : driver,
          .existing = !object.source_content().empty(),
          .taken = !object.creation_time().empty(),
          .ready = object.ready(),
          .deleting = object.deleting()};
}

void OperationTimes::BeginOperation(const char* operation, const std::string& uid) {
  under_way_.try_emplace({operation, uid}, std::chrono::steady_clock::now());
}

void OperationTimes::EndOperation(const char* operation, const State& state, const char* status) {
  const auto it = under_way_.find({operation, state.uid});
  if (it == under_way_.end()) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - it->second;
  metrics_->Observe(Seconds(),
                    {{"driver_name", state.driver},
                     {"operation_name", operation},
                     {"snapshot_type", state.existing ? "pre-provisioned" : "dynamic"},
                     {"operation_status", status}},
                    took.count());
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
    const bool creates = operations.creates_existing || !state.existing;
    if (creates && !state.taken && !state.ready) BeginOperation(operations.create, state.uid);
    if (!state.ready) BeginOperation(operations.create_and_ready, state.uid);
    if (state.taken) EndOperation(operations.create, state, "success");
    if (state.ready) EndOperation(operations.create_and_ready, state, "success");
  }
  ReportInFlight();
}

void OperationTimes::NoteEnd(const Operations& operations, const State& state) {
  if (metrics_ == nullptr) return;
  MutexLock lock(mutex_);
  EndOperation(operations.remove, state, "success");
  EndOperation(operations.create, state, "cancel");
  EndOperation(operations.create_and_ready, state, "cancel");
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
