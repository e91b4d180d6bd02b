#include "controllers/provisioner/provisioner.h"

#include <random>

#include "controllers/claims.h"
#include "controllers/names.h"

namespace berth::controllers::provisioner {

using base::KeyedWorkers;
using base::MutexLock;

namespace {

// Of the claims that IsOpen, and the volumes that are not IsSettled: few of many thousands.
constexpr char kOpenClaims[] = "open";       // by their own key
constexpr char kVolumesToSync[] = "toSync";  // by the driver that made them

// Whether SyncClaim could have something to do.
bool IsOpen(const api::PersistentVolumeClaim& claim) {
  return !IsBound(claim) || claim.has_finalizer(kProvisioningFinalizer);
}

KeyedWorkers::Options QueueOptions(const char* name, int workers, const Options& options,
                                   base::FlightRecorder* flight) {
  return {.name = name,
          .workers = workers,
          .retry_start = options.retry_start,
          .retry_max = options.retry_max,
          .flight = flight};
}

std::string IdentityPrefix(const base::Clock& clock) {
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock.Now().time_since_epoch());
  std::random_device random;
  return fmt::format("{}-{}-", since.count(), std::uniform_int_distribution<int>(0, 9999)(random));
}

// What a failed provisioning may have been for: worth another try at once.
bool Changed(const api::PersistentVolumeClaim* before, const api::PersistentVolumeClaim& after) {
  return before == nullptr || before->deleting() != after.deleting() ||
         before->annotation(kSelectedNode) != after.annotation(kSelectedNode) ||
         before->annotation(kStorageProvisioner) != after.annotation(kStorageProvisioner);
}

}  // namespace

Provisioner::Provisioner(Context context, DriverConnection& driver, Options options)
    : context_(context),
      driver_(driver),
      options_(std::move(options)),
      identity_prefix_(IdentityPrefix(context.clock)),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      classes_(context.informers.Of<api::StorageClass>()),
      nodes_(context.informers.OfOptional<api::Node>()),
      csi_nodes_(context.informers.OfOptional<api::CsiNode>()),
      attachments_(context.informers.OfOptional<api::VolumeAttachment>()),
      election_(options_.node_deployment.base_delay, options_.node_deployment.max_delay),
      claim_workers_(QueueOptions("provision", options_.workers, options_, context.flight),
                     [this](const std::string& key) { return SyncClaim(key); }),
      volume_workers_(QueueOptions("delete-volume", options_.workers, options_, context.flight),
                      [this](const std::string& key) { return SyncVolume(key); }),
      source_workers_(QueueOptions("clone-source", options_.cloning_protection_workers, options_,
                                   context.flight),
                      [this](const std::string& key) { return SyncCloneSource(key); }),
      snapshot_workers_(QueueOptions("snapshot-source", 1, options_, context.flight),
                        [this](const std::string& key) { return SyncSnapshotSource(key); }) {
  AddIndexes();
  WatchClaims();
  WatchVolumes();
  WatchNodes();
  classes_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    for (const auto& claim : claims_.ByIndex(kClaimsByClass, change.key)) {
      claim_workers_.AddNow(claim->key());
    }
  });
  driver_.OnReady([this] { DriverReady(); });
}

Provisioner::~Provisioner() { Stop(); }

void Provisioner::AddIndexes() {
  AddClaimIndexes(claims_);
  AddAttachmentIndexes(attachments_);
  claims_.AddIndex(kOpenClaims, [](const Claim& claim) {
    return IsOpen(claim) ? std::vector<std::string>{claim.key()} : std::vector<std::string>{};
  });
  claims_.AddIndex(kOpenClaimsByProvisioner, [](const Claim& claim) {
    if (!IsOpen(claim)) return std::vector<std::string>{};
    return std::vector<std::string>{claim.annotation(kStorageProvisioner),
                                    claim.annotation(kBetaStorageProvisioner)};
  });
  volumes_.AddIndex(kVolumesToSync, [](const Volume& volume) {
    if (IsSettled(volume)) return std::vector<std::string>{};
    return std::vector<std::string>{volume.annotation(kProvisionedBy),
                                    volume.annotation(kMigratedTo)};
  });
  volumes_.AddIndex(kVolumesByHandle, [](const Volume& volume) {
    if (!volume.has_csi()) return std::vector<std::string>{};
    return std::vector<std::string>{HandleKey(volume.csi().driver(), volume.csi().volume_handle())};
  });
  const auto by_source = [](std::string (*name_of)(const Claim&)) {
    return [name_of](const Claim& claim) {
      const std::string source = name_of(claim);
      if (source.empty() || IsBound(claim)) return std::vector<std::string>{};
      return std::vector<std::string>{api::ObjectKey(claim.ns(), source)};
    };
  };
  claims_.AddIndex(kClaimsBySource, by_source(&CloneSourceName));
  claims_.AddIndex(kClaimsBySnapshot, by_source(&SnapshotSourceName));
}

void Provisioner::WatchClaims() {
  claims_.AddHandler([this](const auto& change) {
    const Claim& claim = change.latest();
    if (const std::string source = CloneSourceName(claim); !source.empty()) {
      source_workers_.Add(api::ObjectKey(claim.ns(), source));
    }
    // One that was bound when this process began is the sweep's.
    if (change.before != nullptr && !IsBound(*change.before)) {
      if (const std::string source = SnapshotSourceName(claim); !source.empty()) {
        snapshot_workers_.Add(api::ObjectKey(claim.ns(), source));
      }
    }
    if (claim.phase() == "Bound" &&
        (change.before == nullptr || change.before->phase() != "Bound")) {
      AddClonesOf(change.key);
    }
    if (change.after == nullptr || claim.has_annotation(kSelectedNode)) {
      election_.Forget(claim.uid());
    }
    if (change.after == nullptr) {
      KeepLost(claim);
    } else if (IsOpen(claim) && (claim.has_annotation(kStorageProvisioner) ||
                                 claim.has_annotation(kBetaStorageProvisioner))) {
      if (Changed(change.before.get(), claim)) {
        claim_workers_.AddNow(change.key);
      } else {
        claim_workers_.Add(change.key);
      }
    }
  });
}

void Provisioner::WatchVolumes() {
  volumes_.AddHandler([this](const auto& change) {
    if (change.after == nullptr && change.before->has_csi()) {
      MutexLock lock(mutex_);
      given_.erase(change.before->csi().volume_handle());
    }
    if (change.after == nullptr || !change.after->has_csi()) return;
    if (change.before == nullptr && change.after->has_claim_ref()) {
      WakeClaimOf(*change.after);
    }
    const bool other_phase =
        change.before == nullptr || change.before->phase() != change.after->phase();
    if (other_phase) {
      AddClonesOf(api::ObjectKey(change.after->claim_namespace(), change.after->claim_name()));
    }
    if (IsSettled(*change.after)) return;
    if (other_phase) {
      volume_workers_.AddNow(change.key);
    } else {
      volume_workers_.Add(change.key);
    }
  });
  attachments_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) volume_workers_.AddNow(change.before->pv_name());
  });
}

// What failed for want of topology may succeed when the driver appears on a node, or its labels do.
void Provisioner::WatchNodes() {
  csi_nodes_.AddHandler([this](const auto& change) {
    const auto info = driver_.info();
    if (info == nullptr) return;
    const auto keys = [&](const api::CsiNode* node) {
      const auto entry = node != nullptr ? node->driver(info->name) : std::nullopt;
      return entry.has_value() ? entry->topology_keys : std::vector<std::string>();
    };
    if (keys(change.before.get()) != keys(change.after.get())) RetryAll(info->name);
  });
  nodes_.AddHandler([this](const auto& change) {
    const auto info = driver_.info();
    if (info == nullptr || !info->topology() || change.after == nullptr) return;
    if (change.before != nullptr && change.before->labels() == change.after->labels()) return;
    RetryAll(info->name);
    // Volumes that were out of the node's reach may be within it now.
    if (change.key == options_.node_deployment.node_name) {
      for (const auto& volume : volumes_.ByIndex(kVolumesToSync, info->name)) {
        volume_workers_.Add(volume->name());
      }
    }
  });
}

void Provisioner::RetryAll(const std::string& driver) {
  for (const auto& claim : claims_.ByIndex(kOpenClaimsByProvisioner, driver)) {
    claim_workers_.AddNow(claim->key());
  }
}

// A claim that is deleted was held until its volume has an object.
void Provisioner::WakeClaimOf(const Volume& volume) {
  const std::string key = api::ObjectKey(volume.claim_namespace(), volume.claim_name());
  const bool lost = [&] {
    MutexLock lock(mutex_);
    return lost_.contains(key);
  }();
  if (lost || !claims_.ByIndex(kOpenClaims, key).empty()) claim_workers_.Add(key);
}

void Provisioner::AddClonesOf(const std::string& source_key) {
  for (const auto& claim : claims_.ByIndex(kClaimsBySource, source_key)) {
    claim_workers_.AddNow(claim->key());
  }
}

void Provisioner::DriverReady() {
  const auto info = driver_.info();
  RetryAll(info->name);
  for (const auto& volume : volumes_.ByIndex(kVolumesToSync, info->name)) {
    volume_workers_.AddNow(volume->name());
  }
}

void Provisioner::Start() {
  started_ = true;
  claim_workers_.Start();
  volume_workers_.Start();
  source_workers_.Start();
  snapshot_workers_.Start();
  if (options_.snapshot_orphan_sweep_interval.count() > 0) snapshot_workers_.Add(kSweep);
}

void Provisioner::Stop() {
  StopSnapshotWatch();
  claim_workers_.Stop();
  if (std::exchange(started_, false)) ReleaseSettled();
  volume_workers_.Stop();
  source_workers_.Stop();
  snapshot_workers_.Stop();
}

}  // namespace berth::controllers::provisioner
