#include "controllers/snapshotcontroller/operation_times.h"

namespace berth::controllers::snapshotcontroller {

using base::MutexLock;

namespace {

constexpr char kCreate[] = "CreateSnapshot";
constexpr char kCreateAndReady[] = "CreateSnapshotAndReady";
constexpr char kDelete[] = "DeleteSnapshot";

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

void OperationTimes::BeginOperation(const char* operation, const std::string& uid) {
  under_way_.try_emplace({operation, uid}, std::chrono::steady_clock::now());
}

void OperationTimes::EndOperation(const char* operation, const api::VolumeSnapshot& snapshot,
                                  const std::string& driver, const char* status) {
  const auto it = under_way_.find({operation, snapshot.uid()});
  if (it == under_way_.end()) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - it->second;
  metrics_->Observe(
      Seconds(),
      {{"driver_name", driver.empty() ? "unknown" : driver},
       {"operation_name", operation},
       {"snapshot_type", snapshot.source_content().empty() ? "dynamic" : "pre-provisioned"},
       {"operation_status", status}},
      took.count());
  under_way_.erase(it);
}

void OperationTimes::ReportInFlight() {
  metrics_->Set(InFlight(), {}, static_cast<double>(under_way_.size()));
}

void OperationTimes::NoteSnapshot(const api::VolumeSnapshot& snapshot, const std::string& driver) {
  if (metrics_ == nullptr) return;
  MutexLock lock(mutex_);
  if (snapshot.deleting()) {
    BeginOperation(kDelete, snapshot.uid());
  } else {
    const bool taken = !snapshot.creation_time().empty();
    if (!taken && !snapshot.ready() && snapshot.source_content().empty()) {
      BeginOperation(kCreate, snapshot.uid());
    }
    if (!snapshot.ready()) BeginOperation(kCreateAndReady, snapshot.uid());
    if (taken) EndOperation(kCreate, snapshot, driver, "success");
    if (snapshot.ready()) EndOperation(kCreateAndReady, snapshot, driver, "success");
  }
  ReportInFlight();
}

void OperationTimes::NoteDeletion(const api::VolumeSnapshot& snapshot, const std::string& driver) {
  if (metrics_ == nullptr) return;
  MutexLock lock(mutex_);
  EndOperation(kDelete, snapshot, driver, "success");
  EndOperation(kCreate, snapshot, driver, "cancel");
  EndOperation(kCreateAndReady, snapshot, driver, "cancel");
  ReportInFlight();
}

}  // namespace berth::controllers::snapshotcontroller
