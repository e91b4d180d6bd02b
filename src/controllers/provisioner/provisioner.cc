#include "controllers/provisioner/provisioner.h"

#include <random>

#include "controllers/claims.h"
#include "controllers/names.h"

namespace berth::controllers::provisioner {

using base::KeyedWorkers;
using base::MutexLock;

namespace {

constexpr char kClaimsByProvisioner[] = "provisioner";  // unbound claims

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
      nodes_(context.informers.Of<api::Node>()),
      csi_nodes_(context.informers.Of<api::CsiNode>()),
      attachments_(context.informers.Of<api::VolumeAttachment>()),
      claim_workers_(QueueOptions("provision", options_.workers, options_, context.flight),
                     [this](const std::string& key) { return SyncClaim(key); }),
      volume_workers_(QueueOptions("delete-volume", options_.workers, options_, context.flight),
                      [this](const std::string& key) { return SyncVolume(key); }),
      source_workers_(QueueOptions("clone-source", 1, options_, context.flight),
                      [this](const std::string& key) { return SyncCloneSource(key); }) {
  AddClaimIndexes(claims_);
  AddAttachmentIndexes(attachments_);
  claims_.AddIndex(kClaimsByProvisioner, [](const api::Object& object) {
    const auto& claim = static_cast<const Claim&>(object);
    if (IsBound(claim)) return std::vector<std::string>{};
    return std::vector<std::string>{claim.annotation(kStorageProvisioner)};
  });
  volumes_.AddIndex(kVolumesByHandle, [](const api::Object& object) {
    const auto& volume = static_cast<const Volume&>(object);
    if (!volume.has_csi()) return std::vector<std::string>{};
    return std::vector<std::string>{HandleKey(volume.csi().driver(), volume.csi().volume_handle())};
  });
  claims_.AddIndex(kClaimsBySource, [](const api::Object& object) {
    const auto& claim = static_cast<const Claim&>(object);
    const std::string source = CloneSourceName(claim);
    if (source.empty() || IsBound(claim)) return std::vector<std::string>{};
    return std::vector<std::string>{api::ObjectKey(claim.ns(), source)};
  });
  Watch();
}

Provisioner::~Provisioner() { Stop(); }

void Provisioner::Watch() {
  claims_.AddHandler([this](const auto& change) {
    const Claim& claim = change.latest();
    if (const std::string source = CloneSourceName(claim); !source.empty()) {
      source_workers_.Add(api::ObjectKey(claim.ns(), source));
    }
    if (claim.phase() == "Bound" &&
        (change.before == nullptr || change.before->phase() != "Bound")) {
      AddClonesOf(change.key);
    }
    if (change.after == nullptr) {
      MutexLock lock(mutex_);
      attempts_.erase(claim.uid());
    } else if (claim.has_annotation(kStorageProvisioner)) {
      if (Changed(change.before.get(), claim)) {
        claim_workers_.AddNow(change.key);
      } else {
        claim_workers_.Add(change.key);
      }
    }
  });
  volumes_.AddHandler([this](const auto& change) {
    if (change.after == nullptr && change.before->has_csi()) {
      MutexLock lock(mutex_);
      given_.erase(change.before->csi().volume_handle());
    }
    if (change.after == nullptr || !change.after->has_csi()) return;
    if (change.before == nullptr && change.after->has_claim_ref()) {
      // A claim that is deleted was held until its volume has an object.
      claim_workers_.Add(
          api::ObjectKey(change.after->claim_namespace(), change.after->claim_name()));
    }
    if (change.before == nullptr || change.before->phase() != change.after->phase()) {
      AddClonesOf(api::ObjectKey(change.after->claim_namespace(), change.after->claim_name()));
      volume_workers_.AddNow(change.key);
    } else {
      volume_workers_.Add(change.key);
    }
  });
  attachments_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) volume_workers_.AddNow(change.before->pv_name());
  });
  classes_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    for (const auto& claim : claims_.ByIndex(kClaimsByClass, change.key)) {
      claim_workers_.AddNow(claim->key());
    }
  });
  csi_nodes_.AddHandler([this](const auto& change) {
    // The driver appeared on a node, or vanished: what failed for want of topology may succeed now.
    const auto info = driver_.info();
    if (info == nullptr) return;
    const auto keys = [&](const api::CsiNode* node) {
      const auto entry = node != nullptr ? node->driver(info->name) : std::nullopt;
      return entry.has_value() ? entry->topology_keys : std::vector<std::string>();
    };
    if (keys(change.before.get()) == keys(change.after.get())) return;
    for (const auto& claim : claims_.ByIndex(kClaimsByProvisioner, info->name)) {
      claim_workers_.AddNow(claim->key());
    }
  });
  driver_.OnReady([this] { DriverReady(); });
}

void Provisioner::AddClonesOf(const std::string& source_key) {
  for (const auto& claim : claims_.ByIndex(kClaimsBySource, source_key)) {
    claim_workers_.AddNow(claim->key());
  }
}

void Provisioner::DriverReady() {
  const auto info = driver_.info();
  for (const auto& claim : claims_.ByIndex(kClaimsByProvisioner, info->name)) {
    claim_workers_.AddNow(claim->key());
  }
  for (const auto& volume : volumes_.List()) {
    if (volume->annotation(kProvisionedBy) == info->name) volume_workers_.AddNow(volume->name());
  }
}

void Provisioner::Start() {
  claim_workers_.Start();
  volume_workers_.Start();
  source_workers_.Start();
}

void Provisioner::Stop() {
  claim_workers_.Stop();
  volume_workers_.Stop();
  source_workers_.Stop();
}

std::optional<Provisioner::Attempt> Provisioner::LastAttempt(const std::string& uid) const {
  MutexLock lock(mutex_);
  const auto it = attempts_.find(uid);
  return it == attempts_.end() ? std::nullopt : std::optional<Attempt>(it->second);
}

bool Provisioner::Refused(const std::string& uid) const {
  const std::optional<Attempt> last = LastAttempt(uid);
  return last.has_value() && last->state == Attempt::State::kRefused;
}

void Provisioner::SetAttempt(const std::string& uid, Attempt attempt) {
  MutexLock lock(mutex_);
  attempts_[uid] = std::move(attempt);
}

}  // namespace berth::controllers::provisioner
