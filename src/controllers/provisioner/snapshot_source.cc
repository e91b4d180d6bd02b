// Claims whose volume starts as a snapshot was (provisioner.h).
//
// Snapshots are read from the API when a claim names one. A watch, which begins with the first such
// claim, only wakes claims that wait for theirs: a cluster without the kind costs nothing.
#include "base/log.h"
#include "controllers/names.h"
#include "controllers/provisioner/provisioner.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

void Provisioner::WatchSnapshots() {
  MutexLock lock(mutex_);
  if (snapshot_watch_ == nullptr && !stopping_) {
    snapshot_watch_ =
        std::make_unique<SnapshotWatch>(context_.client, [this](const std::string& key) {
          for (const auto& claim : claims_.ByIndex(kClaimsBySnapshot, key)) {
            claim_workers_.AddNow(claim->key());
          }
        });
  }
}

void Provisioner::StopSnapshotWatch() {
  std::unique_ptr<SnapshotWatch> watch;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    watch = std::move(snapshot_watch_);
  }
}

StatusOr<csi::v1::VolumeContentSource> Provisioner::SnapshotSource(const Claim& claim,
                                                                   const std::string& source_name,
                                                                   const DriverInfo& driver) {
  if (!driver.Has(DriverInfo::Rpc::CREATE_DELETE_SNAPSHOT)) {
    return Error(StatusCode::kInvalidArgument, "driver '{}' cannot restore snapshots", driver.name);
  }
  WatchSnapshots();
  const std::string context = fmt::format("snapshot '{}'", api::ObjectKey(claim.ns(), source_name));
  const auto snapshot = kube::Get<api::VolumeSnapshot>(context_.client, claim.ns(), source_name);
  RETURN_IF_ERROR_WITH(snapshot, context);
  RETURN_IF_ERROR_WITH(CheckSnapshot(*snapshot, claim.has_finalizer(kProvisioningFinalizer)),
                       context);
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
    RETURN_IF_ERROR_WITH(WriteFinalizers(*snapshot, kSnapshotProtection, ""), context);
  }
  csi::v1::VolumeContentSource out;
  out.mutable_snapshot()->set_snapshot_id(*handle);
  return out;
}

// By PUT, of the whole object as it was read: the upstream role grants no more.
Status Provisioner::WriteFinalizers(const api::VolumeSnapshot& snapshot, std::string_view add,
                                    std::string_view remove) {
  api::VolumeSnapshot changed = snapshot;
  changed.mutable_json().merge_patch(FinalizersPatch(snapshot, add, remove));
  return kube::Update(context_.client, changed).status();
}

Provisioner::Outcome Provisioner::SyncSnapshotSource(const std::string& key) {
  if (key == kSweep) return SweepSnapshots();
  const auto driver = driver_.info();
  // Their binding or deletion brings the snapshot here again.
  if (driver == nullptr || !claims_.ByIndex(kClaimsBySnapshot, key).empty()) return Outcome::Done();
  const auto [ns, name] = api::SplitKey(key);
  const auto snapshot = kube::Get<api::VolumeSnapshot>(context_.client, ns, name);
  if (!snapshot.ok()) return AfterApi(snapshot.status());
  if (!snapshot->has_finalizer(kSnapshotProtection)) return Outcome::Done();
  if (!snapshot->content_name().empty()) {
    const auto content =
        kube::Get<api::VolumeSnapshotContent>(context_.client, "", snapshot->content_name());
    // A snapshot that lost its content is no driver's any more.
    if (!content.ok() && content.status().code() != StatusCode::kNotFound) {
      return AfterApi(content.status());
    }
    if (content.ok() && content->driver() != driver->name) return Outcome::Done();
  }
  return AfterApi(WriteFinalizers(*snapshot, "", kSnapshotProtection));
}

// A claim may have gone while nobody looked: its snapshot is then held for nothing.
Provisioner::Outcome Provisioner::SweepSnapshots() {
  const auto snapshots = context_.client.List(api::kinds::kVolumeSnapshot, "", {});
  if (!snapshots.ok()) {
    LOG_DEBUG("no snapshots to look through: {}", base::ToString(snapshots.status()));
    return Outcome::After(options_.snapshot_orphan_sweep_interval);
  }
  for (const base::Json& object : snapshots->items) {
    const api::VolumeSnapshot snapshot(object);
    if (snapshot.has_finalizer(kSnapshotProtection)) snapshot_workers_.Add(snapshot.key());
  }
  return Outcome::After(options_.snapshot_orphan_sweep_interval);
}

}  // namespace berth::controllers::provisioner
