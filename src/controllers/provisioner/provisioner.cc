#include "controllers/provisioner/provisioner.h"

#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/data_source.h"
#include "controllers/indexes.h"
#include "controllers/provisioner/indexes.h"
#include "controllers/queue_options.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::provisioner {

namespace {

// The key in the snapshots' queue that stands for the check of all snapshots.
constexpr char kSweep[] = "all";
// The key in the claims' queue that stands for the record of intents.
constexpr char kIntents[] = "intents";
// How long the record waits for more changes before it is written for the sake of settled intents.
constexpr std::chrono::seconds kFlushDelay{1};

// Whether provisioning may have failed because this change was missing. Then it is tried at once.
bool IsWorthARetry(const api::PersistentVolumeClaim* before,
                   const api::PersistentVolumeClaim& after) {
  return before == nullptr || before->deleting() != after.deleting() ||
         before->annotations() != after.annotations() ||
         base::json::Map(before->json(), {"spec"}) != base::json::Map(after.json(), {"spec"});
}

}  // namespace

Provisioner::Provisioner(Context context, DriverConnection& driver, Options options)
    : options_(std::move(options)),
      driver_(driver),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      classes_(context.informers.Of<api::StorageClass>()),
      nodes_(context.informers.OfOptional<api::Node>()),
      csi_nodes_(context.informers.OfOptional<api::CsiNode>()),
      attachments_(context.informers.OfOptional<api::VolumeAttachment>()),
      attempts_(context.client, options_,
                {.claim = [this](const std::string& key) { claim_workers_.AddNow(key); },
                 .record = [this] { QueueIntents(); }}),
      sources_(context, options_, attempts_,
               {.snapshot_changed =
                    [this](const std::string& snapshot) {
                      for (const auto& claim : claims_.ByIndex(kClaimsBySnapshot, snapshot)) {
                        claim_workers_.AddNow(claim->key());
                      }
                    },
                .source_free =
                    [this](const DataSources::Source& source) {
                      (source.snapshot ? snapshot_workers_ : source_workers_).AddNow(source.key);
                    }}),
      handles_(volumes_),
      reach_(context, options_.node_deployment),
      provisioning_(context, driver, options_, attempts_, sources_, handles_, reach_),
      deletion_(context, driver, options_.timeout, handles_, reach_),
      claim_workers_(MakeQueueOptions("provision", options_.workers, options_, context),
                     [this](const std::string& key) {
                       return key == kIntents ? SyncIntents() : provisioning_.SyncClaim(key);
                     }),
      volume_workers_(MakeQueueOptions("delete-volume", options_.workers, options_, context),
                      [this](const std::string& key) { return deletion_.SyncVolume(key); }),
      source_workers_(
          MakeQueueOptions("clone-source", options_.cloning_protection_workers, options_, context),
          [this](const std::string& key) { return SyncCloneSource(key); }),
      snapshot_workers_(MakeQueueOptions("snapshot-source", 1, options_, context),
                        [this](const std::string& key) { return SyncSnapshotSource(key); }) {
  AddClaimIndexes(claims_);
  AddAttachmentIndexes(attachments_);
  AddProvisionerIndexes(claims_);
  AddProvisionerIndexes(volumes_);
  WatchClaims();
  WatchVolumes();
  WatchNodes();
  WatchClasses();
  WatchDriver();
}

Provisioner::~Provisioner() { Stop(); }

void Provisioner::WatchClaims() {
  claims_.AddHandler([this](const auto& change) {
    const Claim& claim = change.latest();
    if (const std::string source = CloneSourceName(claim); !source.empty()) {
      source_workers_.Add(api::ObjectKey(DataSourceNamespace(claim), source));
    }
    // Its copies may be gone: a program before this one keeps the finalizer until now.
    if (change.after != nullptr && IsDeletedSource(claim)) source_workers_.Add(change.key);
    // The sweep looks after claims that were bound when this process began.
    if (change.before != nullptr && !IsBound(*change.before)) {
      if (const std::string source = SnapshotSourceName(claim); !source.empty()) {
        snapshot_workers_.Add(api::ObjectKey(DataSourceNamespace(claim), source));
      }
    }
    if (claim.phase() == "Bound" &&
        (change.before == nullptr || change.before->phase() != "Bound")) {
      QueueClonesOf(change.key);
    }
    const std::string selected = claim.annotation(kSelectedNode);
    const bool elsewhere = !selected.empty() && selected != options_.node_deployment.node_name;
    if (change.after == nullptr || IsBound(claim) || elsewhere) {
      provisioning_.EndElection(claim.uid());
    }
    if (change.after == nullptr) {
      provisioning_.KeepLostClaim(claim);
    } else if ((IsOpen(claim) || attempts_.MayHaveVolume(claim)) &&
               (claim.has_annotation(kStorageProvisioner) ||
                claim.has_annotation(kBetaStorageProvisioner))) {
      if (IsWorthARetry(change.before.get(), claim)) {
        claim_workers_.AddNow(change.key);
      } else {
        claim_workers_.Add(change.key);
      }
    }
  });
}

void Provisioner::WatchVolumes() {
  volumes_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) {
      handles_.ReleaseVolume(*change.before);
    } else {
      handles_.NoteShown(*change.after);
    }
    if (change.after == nullptr || !MayBeDrivers(*change.after)) return;
    if (change.before == nullptr && change.after->has_claim_ref()) QueueClaimOf(*change.after);
    const bool other_phase =
        change.before == nullptr || change.before->phase() != change.after->phase();
    if (other_phase) {
      QueueClonesOf(api::ObjectKey(change.after->claim_namespace(), change.after->claim_name()));
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

// Provisioning that failed without topology may succeed when a node gets the driver or its labels.
void Provisioner::WatchNodes() {
  csi_nodes_.AddHandler([this](const auto& change) {
    const auto info = driver_.info();
    if (info == nullptr) return;
    const auto keys = [&](const api::CsiNode* node) {
      const auto entry = node != nullptr ? node->driver(info->name) : std::nullopt;
      return entry.has_value() ? entry->topology_keys : std::vector<std::string>();
    };
    if (keys(change.before.get()) != keys(change.after.get())) QueueClaimsOf(info->name);
  });
  nodes_.AddHandler([this](const auto& change) {
    const auto info = driver_.info();
    if (info == nullptr || !info->topology() || change.after == nullptr) return;
    if (change.before != nullptr && change.before->labels() == change.after->labels()) return;
    QueueClaimsOf(info->name);
    // Volumes that were out of the node's reach may be within it now.
    if (change.key == options_.node_deployment.node_name) {
      for (const auto& volume : volumes_.ByIndex(kVolumesToSync, info->name)) {
        volume_workers_.Add(volume->name());
      }
    }
  });
}

void Provisioner::WatchClasses() {
  classes_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    for (const auto& claim : claims_.ByIndex(kClaimsByClass, change.key)) {
      claim_workers_.AddNow(claim->key());
    }
  });
}

void Provisioner::WatchDriver() {
  driver_.OnReady([this] {
    const auto info = driver_.info();
    claim_workers_.AddNow(kIntents);
    QueueClaimsOf(info->name);
    for (const auto& volume : volumes_.ByIndex(kVolumesToSync, info->name)) {
      volume_workers_.AddNow(volume->name());
    }
    // Copies that were bound before this process began change no more, and their sources were not
    // released while the driver was unknown.
    for (const auto& claim : claims_.Subset(kCopies)) {
      source_workers_.Add(api::ObjectKey(DataSourceNamespace(*claim), CloneSourceName(*claim)));
    }
    for (const auto& claim : claims_.Subset(kDeletedSources)) source_workers_.Add(claim->key());
  });
}

void Provisioner::QueueClaimsOf(const std::string& driver) {
  for (const auto& claim : claims_.ByIndex(kOpenClaimsByProvisioner, driver)) {
    claim_workers_.AddNow(claim->key());
  }
}

void Provisioner::QueueClaimOf(const Volume& volume) {
  const std::string key = api::ObjectKey(volume.claim_namespace(), volume.claim_name());
  if (attempts_.FindLast(volume.claim_uid()).has_value() ||
      !claims_.ByIndex(kOpenClaims, key).empty()) {
    claim_workers_.Add(key);
  }
}

void Provisioner::QueueClonesOf(const std::string& source_key) {
  for (const auto& claim : claims_.ByIndex(kClaimsBySource, source_key)) {
    claim_workers_.AddNow(claim->key());
  }
}

void Provisioner::QueueIntents() {
  if (attempts_.loaded()) {
    claim_workers_.AddAfter(kIntents, kFlushDelay);
  } else {
    claim_workers_.AddNow(kIntents);
  }
}

Provisioner::Outcome Provisioner::SyncIntents() {
  const bool began = !attempts_.loaded();
  const Outcome taken_over = provisioning_.TakeOverIntents();
  // Until now no claim was served.
  if (began && attempts_.loaded()) QueueClaimsOf(driver_.info()->name);
  return taken_over;
}

Provisioner::Outcome Provisioner::SyncCloneSource(const std::string& key) {
  const auto driver = driver_.info();
  return driver == nullptr ? Outcome::Done() : sources_.ReleaseClone(key, *driver);
}

Provisioner::Outcome Provisioner::SyncSnapshotSource(const std::string& key) {
  if (key == kSweep) return SweepSnapshots();
  const auto driver = driver_.info();
  return driver == nullptr ? Outcome::Done() : sources_.ReleaseSnapshot(key, *driver);
}

Provisioner::Outcome Provisioner::SweepSnapshots() {
  const auto held = sources_.FindHeldSnapshots();
  if (!held.ok()) {
    LOG_DEBUG("cannot list VolumeSnapshots to remove finalizers: {}",
              base::ToString(held.status()));
  } else {
    for (const std::string& snapshot : *held) snapshot_workers_.Add(snapshot);
  }
  return Outcome::After(options_.snapshot_orphan_sweep_interval);
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
  sources_.StopWatch();
  claim_workers_.Stop();
  // An API that is away must not delay the end: what is settled and not written yet is found out
  // again by the next process.
  if (std::exchange(started_, false)) {
    if (const base::Status written = attempts_.Flush(); !written.ok()) {
      LOG_WARNING("cannot write the intents at the end: {}", base::ToString(written));
    }
  }
  volume_workers_.Stop();
  source_workers_.Stop();
  snapshot_workers_.Stop();
}

}  // namespace berth::controllers::provisioner
