// The part of DataSources (data_sources.h) for volumes that are filled from a snapshot.
#include "base/log.h"
#include "controllers/data_source.h"
#include "controllers/provisioner/data_sources.h"
#include "controllers/provisioner/indexes.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

void DataSources::StartWatch() {
  MutexLock lock(mutex_);
  if (watch_ == nullptr && !stopping_) {
    watch_ = std::make_unique<SnapshotWatch>(context_.client, callbacks_.snapshot_changed);
  }
}

void DataSources::StopWatch() {
  // Destroyed without the lock, because its destructor waits for a call of `snapshot_changed`.
  std::unique_ptr<SnapshotWatch> watch;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    watch = std::move(watch_);
  }
}

StatusOr<csi::v1::VolumeContentSource> DataSources::HoldSnapshot(const Claim& claim,
                                                                 const std::string& source_name,
                                                                 const DriverInfo& driver) {
  if (!driver.Has(DriverInfo::Rpc::CREATE_DELETE_SNAPSHOT)) {
    return Error(StatusCode::kInvalidArgument, "driver '{}' cannot restore snapshots", driver.name);
  }
  StartWatch();
  const std::string ns = DataSourceNamespace(claim);
  const std::string context = fmt::format("snapshot '{}'", api::ObjectKey(ns, source_name));
  const auto snapshot = kube::Get<api::VolumeSnapshot>(context_.client, ns, source_name);
  RETURN_IF_ERROR_WITH(snapshot, context);
  RETURN_IF_ERROR_WITH(CheckSnapshot(*snapshot), context);
  const auto content =
      kube::Get<api::VolumeSnapshotContent>(context_.client, "", snapshot->content_name());
  RETURN_IF_ERROR_WITH(content, context);
  const StatusOr<std::string> handle =
      SnapshotHandle({.claim = claim,
                      .snapshot = *snapshot,
                      .content = *content,
                      .driver = driver.name,
                      .prevent_mode_conversion = options_.prevent_volume_mode_conversion});
  RETURN_IF_ERROR_WITH(handle, context);
  if (!snapshot->has_finalizer(kSnapshotProtection)) {
    const Status held = WriteFinalizers(*snapshot, kSnapshotProtection, "");
    // Older RBAC roles of the Go program do not grant the update of snapshots. That program then
    // restores the snapshot without the finalizer, and so does Berth.
    if (held.code() == StatusCode::kPermissionDenied) {
      LOG_INFO("{} gets no finalizer while a volume is made from it: {}", context,
               base::Message(held));
    } else {
      RETURN_IF_ERROR_WITH(held, context);
    }
  }
  csi::v1::VolumeContentSource out;
  out.mutable_snapshot()->set_snapshot_id(*handle);
  return out;
}

// Writes the whole object as it was read, with its changed finalizers, by PUT, because the RBAC
// role of the Go program grants no `patch`.
Status DataSources::WriteFinalizers(const api::VolumeSnapshot& snapshot, std::string_view add,
                                    std::string_view remove) {
  api::VolumeSnapshot changed = snapshot;
  changed.mutable_json().merge_patch(FinalizersPatch(snapshot, add, remove));
  return kube::Update(context_.client, changed).status();
}

DataSources::Outcome DataSources::ReleaseSnapshot(const std::string& key,
                                                  const DriverInfo& driver) {
  const Releasing releasing(*this, {.snapshot = true, .key = key});
  if (!releasing.may_release()) return Outcome::Done();
  // The binding or deletion of these claims queues the snapshot again.
  const auto [ns, name] = api::SplitKey(key);
  const auto needed = IsNeededBy(std::string(ns), claims_.ByIndex(kClaimsBySnapshot, key));
  if (!needed.ok()) return AfterApi(needed.status());
  if (*needed) return Outcome::Done();
  const auto snapshot = kube::Get<api::VolumeSnapshot>(context_.client, ns, name);
  if (!snapshot.ok()) return AfterApi(snapshot.status());
  if (!snapshot->has_finalizer(kSnapshotProtection)) return Outcome::Done();
  if (!snapshot->content_name().empty()) {
    const auto content =
        kube::Get<api::VolumeSnapshotContent>(context_.client, "", snapshot->content_name());
    // A snapshot that lost its content belongs to no driver any more.
    if (!content.ok() && content.status().code() != StatusCode::kNotFound) {
      return AfterApi(content.status());
    }
    if (content.ok() && content->driver() != driver.name) return Outcome::Done();
  }
  const Status released = WriteFinalizers(*snapshot, "", kSnapshotProtection);
  // A further attempt would be refused again. A program that has the right removes the finalizer.
  if (released.code() == StatusCode::kPermissionDenied) {
    LOG_INFO("snapshot {} keeps its finalizer: {}", base::Quote(key), base::Message(released));
    return Outcome::Done();
  }
  return AfterApi(released);
}

StatusOr<std::vector<std::string>> DataSources::FindHeldSnapshots() {
  ASSIGN_OR_RETURN(const auto snapshots, context_.client.List(api::kinds::kVolumeSnapshot, "", {}));
  std::vector<std::string> held;
  for (const base::Json& object : snapshots.items) {
    const api::VolumeSnapshot snapshot(object);
    if (snapshot.has_finalizer(kSnapshotProtection)) held.push_back(snapshot.key());
  }
  return held;
}

}  // namespace berth::controllers::provisioner
