#include "controllers/blockoperator/snapshots.h"

#include "api/quantity.h"
#include "api/time.h"
#include "base/log.h"
#include "controllers/blockoperator/block_volume.h"
#include "controllers/blockoperator/image_progress.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/claims.h"
#include "controllers/data_source.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"
#include "kube/informers/live_object.h"

namespace berth::controllers::blockoperator {

using base::Error;
using base::EventType;

namespace {

std::string ImageName(const api::BlockSnapshot& snapshot) { return "snap-" + snapshot.uid(); }

}  // namespace

Snapshots::Snapshots(const Context& context, Backends& backends, QuietCopies& copies,
                     const Options& options)
    : context_(context),
      backends_(backends),
      quiet_copies_(copies),
      progress_patience_(options.progress_patience),
      snapshots_(context.informers.OfOptional<Snapshot>()),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      clusters_(context.informers.OfOptional<api::StorageCluster>()),
      workers_(QueueOptions("block-snapshot", options, context.flight),
               [this](const std::string& key) { return SyncSnapshot(key); }) {
  AddBlockIndexes(snapshots_);
  AddHandlers();
}

void Snapshots::AddHandlers() {
  snapshots_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    // This controller makes all other changes itself. If it queued the key for them, it would cut
    // its own backoff short.
    const bool must_sync = change.before == nullptr ||
                           change.before->uid() != change.after->uid() ||
                           change.before->deleting() != change.after->deleting();
    if (must_sync) workers_.AddNow(change.key);
  });
  claims_.AddHandler([this](const auto& change) {
    // A deletion waits while a claim is being restored.
    const std::string restored = BlockSnapshotSourceName(change.latest());
    if (!restored.empty()) workers_.Add(api::ObjectKey(change.latest().ns(), restored));
    if (change.after == nullptr || !IsBound(*change.after)) return;
    if (change.before != nullptr && IsBound(*change.before)) return;
    for (const auto& snapshot : snapshots_.ByIndex(kSnapshotsByClaim, change.key)) {
      workers_.AddNow(snapshot->key());
    }
  });
  context_.informers.OfOptional<api::VolumeFence>().AddHandler([this](const auto& change) {
    if (change.after != nullptr) return;
    for (const auto& snapshot : snapshots_.ByIndex(kSnapshotsByVolume, change.key)) {
      workers_.AddNow(snapshot->key());
    }
  });
  clusters_.AddHandler([this](const auto& change) {
    const bool must_sync =
        change.before == nullptr || change.after == nullptr ||
        change.before->generation() != change.after->generation() ||
        change.before->String({"status", "phase"}) != change.after->String({"status", "phase"});
    if (must_sync) RetryAll();
  });
}

void Snapshots::RetryAll() {
  snapshots_.ForEach([this](const Snapshot& snapshot) {
    if (!snapshot.ready() || snapshot.deleting()) workers_.AddNow(snapshot.key());
  });
}

Snapshots::Outcome Snapshots::SyncSnapshot(const std::string& key) {
  const auto known = snapshots_.Get(key);
  if (known == nullptr || (known->ready() && !known->deleting())) return Outcome::Done();
  // The object is read from the API, because the informer's copy may be older than the deletion. A
  // snapshot that is made after the deletion would never be deleted.
  const StatusOr<Snapshot> live =
      kube::ReadLiveObject(context_.client, snapshots_, known->ns(), known->name());
  if (!live.ok()) return AfterApi(live.status());
  if (live->deleting()) {
    return live->has_finalizer(api::kSnapshotFinalizer) ? DeleteSnapshot(*live) : Outcome::Done();
  }
  if (live->ready()) return Outcome::Done();
  return live->cluster().empty() ? BeginSnapshot(*live) : MakeSnapshot(*live);
}

StatusOr<Json> Snapshots::FindSource(const Snapshot& snapshot) const {
  const auto refuse = [&](std::string_view why) {
    return Error(StatusCode::kFailedPrecondition, "claim '{}' {}", snapshot.claim_name(), why);
  };
  const auto found = FindBoundVolume(claims_, volumes_, snapshot.ns(), snapshot.claim_name());
  if (!found.ok()) return refuse(base::Message(found.status()));
  const auto& volume = *found;
  const auto block = BlockVolumeOf(*volume);
  if (!block.has_value()) {
    return refuse(
        fmt::format("has a volume that is not of '{}': a CSI driver makes a "
                    "VolumeSnapshot of its volumes",
                    api::kBlockProvisioner));
  }
  if (const auto cluster = clusters_.Get(block->cluster);
      cluster != nullptr && cluster->deleting()) {
    return refuse(fmt::format("is in StorageCluster '{}', which is being deleted", block->cluster));
  }
  return Json{{"clusterName", block->cluster},
              {"volumeName", volume->name()},
              {"image", block->image},
              {"fsType", volume->String({"spec", "flexVolume", "fsType"})}};
}

Status Snapshots::CheckOffered(const std::string& cluster, const std::string& image,
                               const std::string& name) {
  ASSIGN_OR_RETURN(const Backends::Ptr backend, backends_.Of(cluster));
  if (backend->OffersSnapshots() != block::SnapshotSupport::kNone) return base::OkStatus();
  // CreateSnapshot makes nothing here: it returns the reason.
  return backend->CreateSnapshot(image, name).status();
}

Snapshots::Outcome Snapshots::BeginSnapshot(const Snapshot& snapshot) {
  const StatusOr<Json> source = FindSource(snapshot);
  if (!source.ok()) return ReportFailure(snapshot, source.status());
  // A snapshot that the back end can never make gets no finalizer and no status, because these keep
  // the volume from being deleted.
  const Status offered = CheckOffered(base::json::String(*source, {"clusterName"}),
                                      base::json::String(*source, {"image"}), ImageName(snapshot));
  if (!offered.ok()) return ReportFailure(snapshot, offered);
  StatusOr<Snapshot> held = snapshot;
  if (!snapshot.has_finalizer(api::kSnapshotFinalizer)) {
    held = PatchAt(context_.client, snapshots_, snapshot,
                   FinalizersPatch(snapshot, api::kSnapshotFinalizer, ""));
    if (!held.ok()) return AfterApi(held.status());
  }
  const StatusOr<Snapshot> begun =
      PatchAt(context_.client, snapshots_, *held, {{"status", *source}}, "status");
  return begun.ok() ? MakeSnapshot(*begun) : AfterApi(begun.status());
}

Snapshots::Outcome Snapshots::MakeSnapshot(const Snapshot& snapshot) {
  const StatusOr<block::ImageInfo> made = CallBackend(snapshot);
  if (!made.ok()) return ReportFailure(snapshot, made.status());
  // PatchAt fails if the object has changed, because a deletion that began meanwhile takes
  // precedence.
  const Status written = PatchAt(context_.client, snapshots_, snapshot,
                                 {{"status",
                                   {{"readyToUse", true},
                                    {"snapshot", made->name},
                                    {"restoreSize", api::FormatBytes(made->size_bytes)},
                                    {"creationTime", api::FormatTime(context_.clock.Now())},
                                    {"error", nullptr}}}},
                                 "status")
                             .status();
  if (!written.ok()) return AfterApi(written);
  LOG_INFO("snapshot {} of image {} in StorageCluster {} is made for BlockSnapshot {}",
           base::Quote(made->name), base::Quote(snapshot.image()), base::Quote(snapshot.cluster()),
           base::Quote(snapshot.key()));
  context_.events.Record(snapshot.reference(), EventType::kNormal, "SnapshotCreated",
                         fmt::format("made snapshot '{}' of image '{}' in StorageCluster '{}'",
                                     made->name, snapshot.image(), snapshot.cluster()));
  return Outcome::Done();
}

StatusOr<block::ImageInfo> Snapshots::CallBackend(const Snapshot& snapshot) {
  ASSIGN_OR_RETURN(const Backends::Ptr backend, backends_.Of(snapshot.cluster()));
  const auto volume = volumes_.Get(snapshot.volume_name());
  const auto block = volume == nullptr ? std::nullopt : BlockVolumeOf(*volume);
  if (!block.has_value() || block->cluster != snapshot.cluster() ||
      block->image != snapshot.image()) {
    return Error(
        StatusCode::kNotFound,
        "PersistentVolume '{}' with image '{}' does not exist, so no snapshot can be made of "
        "it: delete this BlockSnapshot",
        snapshot.volume_name(), snapshot.image());
  }
  const auto make = [&] {
    const ImageProgress progress(
        context_.events, snapshot.reference(), kImageCopying,
        fmt::format("image '{}' is being copied to '{}'", block->image, ImageName(snapshot)),
        {.patience = progress_patience_});
    return Passing<"blockoperator.snapshot">(
        [&] { return backend->CreateSnapshot(block->image, ImageName(snapshot)); });
  };
  return backend->OffersSnapshots() == block::SnapshotSupport::kOfUnused
             ? quiet_copies_.Copy(*volume, *backend, ImageName(snapshot), make)
             : make();
}

Snapshots::Outcome Snapshots::DeleteSnapshot(const Snapshot& snapshot) {
  const Status deleted = snapshot.cluster().empty() ? base::OkStatus() : DeleteImage(snapshot);
  if (!deleted.ok()) {
    context_.events.Record(snapshot.reference(), EventType::kWarning, "SnapshotDeleteFailed",
                           base::Message(deleted));
    return Outcome::Retry(deleted);
  }
  return AfterApi(PatchAt(context_.client, snapshots_, snapshot,
                          FinalizersPatch(snapshot, "", api::kSnapshotFinalizer))
                      .status());
}

Status Snapshots::DeleteImage(const Snapshot& snapshot) {
  const std::string name = ImageName(snapshot);
  for (const auto& volume : volumes_.ByIndex(kVolumesByImage, name)) {
    return Error(StatusCode::kFailedPrecondition,
                 "PersistentVolume '{}' uses the image of snapshot '{}': delete the "
                 "PersistentVolume first",
                 volume->name(), name);
  }
  for (const auto& claim : claims_.Subset(kOpenClaims)) {
    if (claim->ns() == snapshot.ns() && claim->volume_name().empty() && !claim->deleting() &&
        claim->has_finalizer(kProvisioningFinalizer) &&
        BlockSnapshotSourceName(*claim) == snapshot.name()) {
      return Error(StatusCode::kFailedPrecondition,
                   "claim '{}' is being restored from snapshot '{}'", claim->key(), name);
    }
  }
  const StatusOr<Backends::Ptr> backend = backends_.Of(snapshot.cluster());
  if (backend.status().code() == StatusCode::kNotFound) {
    return Error(StatusCode::kNotFound,
                 "StorageCluster '{}' does not exist, so snapshot '{}' cannot be deleted: create "
                 "the cluster again, or remove the finalizer {} from this BlockSnapshot to leave "
                 "the snapshot in the storage",
                 snapshot.cluster(), name, api::kSnapshotFinalizer);
  }
  RETURN_IF_ERROR(backend);
  const ImageProgress progress(context_.events, snapshot.reference(), kSnapshotDeleting,
                               fmt::format("snapshot '{}' is being deleted", name),
                               {.patience = progress_patience_});
  const Status deleted = Passing<"blockoperator.delete">([&] { return (*backend)->Delete(name); });
  // A back end that cannot delete snapshots cannot make them, either, so there is nothing to
  // delete.
  if (deleted.code() == StatusCode::kUnimplemented) return base::OkStatus();
  RETURN_IF_ERROR_WITH(deleted, fmt::format("delete snapshot '{}'", name));
  LOG_INFO("snapshot {} of BlockSnapshot {} is deleted", base::Quote(name),
           base::Quote(snapshot.key()));
  return base::OkStatus();
}

Snapshots::Outcome Snapshots::ReportFailure(const Snapshot& snapshot, const Status& why) {
  // ABORTED means that another call works on the image. The next run may succeed.
  if (why.code() == StatusCode::kAborted) return Outcome::Retry(why);
  const std::string message(base::Message(why));
  context_.events.Record(snapshot.reference(), EventType::kWarning, "SnapshotFailed", message);
  if (snapshot.error() != message) {
    const Status written =
        Patch(context_.client, snapshots_, snapshot,
              {{"status",
                {{"readyToUse", false},
                 {"error",
                  {{"message", message}, {"time", api::FormatTime(context_.clock.Now())}}}}}},
              "status")
            .status();
    if (!written.ok()) return AfterApi(written);
  }
  return Outcome::Retry(why);
}

}  // namespace berth::controllers::blockoperator
