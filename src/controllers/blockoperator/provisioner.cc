#include "controllers/blockoperator/provisioner.h"

#include "controllers/claims.h"
#include "controllers/data_source.h"
#include "controllers/indexes.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::blockoperator {

namespace {

bool AsksFor(const api::PersistentVolumeClaim& claim) {
  return claim.annotation(kStorageProvisioner) == api::kBlockProvisioner ||
         claim.annotation(kBetaStorageProvisioner) == api::kBlockProvisioner;
}

// Whether SyncClaim could have something to do.
bool IsOpen(const api::PersistentVolumeClaim& claim) {
  return AsksFor(claim) && (!IsBound(claim) || claim.has_finalizer(kProvisioningFinalizer));
}

}  // namespace

base::KeyedWorkers::Options QueueOptions(const char* name, const Options& options,
                                         base::FlightRecorder* flight) {
  return {.name = name,
          .workers = options.workers,
          .max_workers = options.max_workers,
          .retry_start = options.retry_start,
          .retry_max = options.retry_max,
          .flight = flight};
}

Provisioner::Provisioner(const Context& context, Backends& backends, NodeProofs& proofs,
                         QuietCopies& copies, const Options& options)
    : context_(context),
      backends_(backends),
      copies_of_namespace_(options.copies_of_namespace),
      copy_pause_(options.copy_pause),
      unmount_patience_(options.unmount_patience),
      progress_patience_(options.progress_patience),
      unmount_pause_(options.unmount_pause),
      uses_(context, proofs),
      quiet_copies_(copies),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      classes_(context.informers.Of<api::StorageClass>()),
      nodes_(context.informers.Of<api::Node>()),
      clusters_(context.informers.OfOptional<Cluster>()),
      fences_(context.informers.OfOptional<api::VolumeFence>()),
      cleanups_(context.informers.OfOptional<api::NodeCleanup>()),
      snapshots_(context.informers.OfOptional<api::BlockSnapshot>()),
      claim_workers_(QueueOptions("block-claim", options, context.flight),
                     [this](const std::string& key) { return SyncClaim(key); }),
      volume_workers_(QueueOptions("block-volume", options, context.flight),
                      [this](const std::string& key) { return SyncVolume(key); }) {
  AddIndexes();
  AddHandlers();
  WatchSources();
}

void Provisioner::AddIndexes() {
  AddClaimIndexes(claims_);
  claims_.AddSubset(kOpenClaims, &IsOpen);
  AddBlockIndexes(volumes_);
  AddBlockIndexes(snapshots_);
}

void Provisioner::AddHandlers() {
  claims_.AddHandler([this](const auto& change) {
    // The source's volume is queued, because its deletion waits while a copy of it is under way.
    if (change.before != nullptr && IsOpen(*change.before)) {
      if (const std::string source = CloneSourceName(*change.before); !source.empty()) {
        const std::string source_key = api::ObjectKey(change.before->ns(), source);
        for (const auto& volume : volumes_.ByIndex(kVolumesByClaim, source_key)) {
          volume_workers_.AddNow(volume->name());
        }
      }
    }
    if (change.after == nullptr || !IsOpen(*change.after)) return;
    const bool news =
        change.before == nullptr || change.before->deleting() != change.after->deleting() ||
        change.before->annotation(kSelectedNode) != change.after->annotation(kSelectedNode) ||
        !AsksFor(*change.before);
    if (news) {
      claim_workers_.AddNow(change.key);
    } else {
      claim_workers_.Add(change.key);
    }
  });
  AddVolumeIndexes(volumes_);
  volumes_.AddHandler([this](const auto& change) {
    // A new volume may have the name of one that is gone, and the copy may show both as one change.
    const bool gone = change.before != nullptr &&
                      (change.after == nullptr || change.after->uid() != change.before->uid());
    if (gone) {
      base::MutexLock lock(mutex_);
      held_.erase(change.before->uid());
    }
    if (change.after == nullptr || !BlockVolumeOf(*change.after).has_value()) return;
    if (change.before == nullptr && change.after->has_claim_ref()) {
      claim_workers_.Add(
          api::ObjectKey(change.after->claim_namespace(), change.after->claim_name()));
    }
    if (change.before == nullptr || change.before->phase() != change.after->phase()) {
      volume_workers_.AddNow(change.key);
    } else {
      volume_workers_.Add(change.key);
    }
  });
  classes_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    for (const auto& claim : claims_.ByIndex(kClaimsByClass, change.key)) {
      claim_workers_.AddNow(claim->key());
    }
  });
  clusters_.AddHandler([this](const auto& change) {
    const bool news =
        change.before == nullptr || change.after == nullptr ||
        change.before->generation() != change.after->generation() ||
        change.before->String({"status", "phase"}) != change.after->String({"status", "phase"});
    if (!news) return;
    RetryClaims();
    RetryVolumesOf(change.key);
  });
}

// Watches for snapshots that are made, because claims may wait for them, and for the end of uses,
// because a deletion or a copy may wait for it.
void Provisioner::WatchSources() {
  snapshots_.AddHandler([this](const auto& change) {
    // The deletion of a volume waits while a snapshot of it is under way.
    const bool over = change.after == nullptr || change.after->deleting() || change.after->ready();
    if (over && !change.latest().volume_name().empty()) {
      volume_workers_.AddNow(change.latest().volume_name());
    }
    if (change.after == nullptr || !change.after->ready()) return;
    if (change.before == nullptr || !change.before->ready()) RetryClaims();
  });
  fences_.AddHandler([this](const auto& change) {
    if (change.after != nullptr) return;
    volume_workers_.AddNow(change.key);
    RetryClaims();
  });
  cleanups_.AddHandler([this](const auto& change) {
    if (change.before == nullptr) return;
    for (const api::CleanupEntry& entry : change.before->entries()) {
      volume_workers_.AddNow(entry.volume);
    }
  });
}

void Provisioner::RetryClaims() {
  for (const auto& claim : claims_.Subset(kOpenClaims)) claim_workers_.AddNow(claim->key());
}

void Provisioner::RetryVolumesOf(const std::string& cluster) {
  for (const auto& volume : volumes_.ByIndex(kVolumesByCluster, cluster)) {
    volume_workers_.AddNow(volume->name());
  }
}

void Provisioner::Start() {
  claim_workers_.Start();
  volume_workers_.Start();
}

void Provisioner::Stop() {
  claim_workers_.Stop();
  volume_workers_.Stop();
}

}  // namespace berth::controllers::blockoperator
