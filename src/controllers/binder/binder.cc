#include "controllers/binder/binder.h"

#include "controllers/indexes.h"

namespace berth::controllers::binder {

using base::KeyedWorkers;

namespace {

// The backoff is short, because the binder calls no driver and only the API can fail.
KeyedWorkers::Options QueueOptions(const char* name) {
  return {.name = name,
          .workers = 4,
          .retry_start = std::chrono::milliseconds(100),
          .retry_max = std::chrono::seconds(30)};
}

bool IsFree(const api::PersistentVolume* volume) {
  return volume != nullptr && volume->phase() == "Available" && !volume->has_claim_ref();
}

}  // namespace

Binder::Binder(Context context)
    : context_(context),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      classes_(context.informers.Of<api::StorageClass>()),
      pods_(context.informers.Of<api::Pod>()),
      claim_workers_(QueueOptions("bind-claims"),
                     [this](const std::string& key) { return SyncClaim(key); }),
      volume_workers_(QueueOptions("bind-volumes"),
                      [this](const std::string& key) { return SyncVolume(key); }) {
  AddClaimIndexes(claims_);
  AddVolumeIndexes(volumes_);
  AddPodIndexes(pods_);
  AddHandlers();
}

Binder::~Binder() { Stop(); }

void Binder::AddHandlers() {
  claims_.AddHandler([this](const auto& change) {
    claim_workers_.Add(change.key);
    if (const std::string volume = change.latest().volume_name(); !volume.empty()) {
      volume_workers_.Add(volume);
    }
    for (const auto& volume : volumes_.ByIndex(kVolumesByClaim, change.key)) {
      volume_workers_.Add(volume->name());
    }
  });
  volumes_.AddHandler([this](const auto& change) {
    volume_workers_.Add(change.key);
    for (const Volume* volume : {change.before.get(), change.after.get()}) {
      if (volume != nullptr && volume->has_claim_ref()) {
        claim_workers_.Add(api::ObjectKey(volume->claim_namespace(), volume->claim_name()));
      }
    }
    if (!IsFree(change.after.get()) || IsFree(change.before.get())) return;
    for (const std::string& class_name : {change.after->storage_class_name(), std::string()}) {
      for (const auto& claim : claims_.ByIndex(kClaimsByClass, class_name)) {
        claim_workers_.Add(claim->key());
      }
    }
  });
  classes_.AddHandler([this](const auto& change) {
    for (const std::string& class_name : {change.key, std::string()}) {
      for (const auto& claim : claims_.ByIndex(kClaimsByClass, class_name)) {
        claim_workers_.Add(claim->key());
      }
    }
  });
}

void Binder::Start() {
  claim_workers_.Start();
  volume_workers_.Start();
}

void Binder::Stop() {
  claim_workers_.Stop();
  volume_workers_.Stop();
}

void Binder::Warn(const api::Object& object, std::string_view reason, std::string_view message) {
  context_.events.Record(object.reference(), base::EventType::kWarning, reason, message);
}

void Binder::NoteEvent(const api::Object& object, std::string_view reason,
                       std::string_view message) {
  context_.events.Record(object.reference(), base::EventType::kNormal, reason, message);
}

}  // namespace berth::controllers::binder
