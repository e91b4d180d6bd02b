#include "controllers/blockoperator/grower.h"

#include <algorithm>

#include "api/quantity.h"
#include "base/log.h"
#include "controllers/blockoperator/block_volume.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/claim_growth.h"
#include "controllers/claims.h"
#include "controllers/writes.h"

namespace berth::controllers::blockoperator {

using base::Error;

namespace {

// The size that the image must have for the claim; nullopt: the claim has what it asks for.
std::optional<int64_t> FindWantedSize(const api::PersistentVolumeClaim& claim,
                                      const api::PersistentVolume& volume) {
  const auto requested = api::ParseBytes(claim.requested_storage());
  const auto capacity = api::ParseBytes(volume.capacity());
  const auto claim_capacity = api::ParseBytes(claim.capacity());
  if (!requested.ok() || !capacity.ok() || !claim_capacity.ok()) return std::nullopt;
  // The capacity is more than the request if the request was reduced after the controller manager
  // had written the capacity. The node then still waits for an image of that size.
  const int64_t wanted = std::max(*requested, *capacity);
  return wanted > *claim_capacity ? std::optional(wanted) : std::nullopt;
}

}  // namespace

Grower::Grower(const Context& context, Backends& backends, const Options& options)
    : context_(context),
      backends_(backends),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      classes_(context.informers.Of<api::StorageClass>()),
      workers_(QueueOptions("block-grow", options, context.flight),
               [this](const std::string& key) { return SyncClaim(key); }) {
  WatchObjects();
}

void Grower::WatchObjects() {
  claims_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    if (change.before == nullptr ||
        change.before->requested_storage() != change.after->requested_storage() ||
        change.before->volume_name() != change.after->volume_name() ||
        change.before->capacity() != change.after->capacity()) {
      workers_.AddNow(change.key);
    }
  });
  volumes_.AddHandler([this](const auto& change) {
    if (change.after == nullptr || !BlockVolumeOf(*change.after).has_value()) return;
    if (change.before == nullptr || change.before->capacity() != change.after->capacity()) {
      workers_.AddNow(api::ObjectKey(change.after->claim_namespace(), change.after->claim_name()));
    }
  });
}

Grower::Outcome Grower::SyncClaim(const std::string& key) {
  const auto claim = claims_.Get(key);
  if (claim == nullptr || !IsBound(*claim)) return Outcome::Done();
  const auto volume = volumes_.Get(claim->volume_name());
  if (volume == nullptr || !RefersTo(*volume, *claim) || !BlockVolumeOf(*volume).has_value()) {
    return Outcome::Done();
  }
  const std::optional<int64_t> wanted = FindWantedSize(*claim, *volume);
  if (!wanted.has_value()) return Outcome::Done();
  const StatusOr<int64_t> grown = GrowImage(*volume, *wanted);
  if (!grown.ok()) {
    context_.events.Record(claim->reference(), base::EventType::kWarning, "VolumeResizeFailed",
                           fmt::format("the image of the volume cannot grow to {}: {}",
                                       api::FormatBytes(*wanted), base::Message(grown.status())));
    return Outcome::Retry(grown.status());
  }
  const std::string size = api::FormatBytes(*grown);
  if (volume->annotation(kImageSize) == size) return Outcome::Done();
  // Only this controller writes the annotation, so the write cannot conflict with those of the
  // controller manager.
  const auto written = Patch(context_.client, volumes_, *volume,
                             {{"metadata", {{"annotations", {{std::string(kImageSize), size}}}}}});
  if (!written.ok()) return AfterApi(written.status());
  LOG_INFO("the image of volume {} of claim {} in StorageCluster {} has the size {}",
           base::Quote(volume->name()), base::Quote(claim->key()),
           base::Quote(BlockVolumeOf(*volume)->cluster), size);
  return Outcome::Done();
}

StatusOr<int64_t> Grower::GrowImage(const Volume& volume, int64_t wanted) {
  // The API checks this when the claim is changed, but the class may have changed since.
  const auto storage_class = classes_.Get(volume.storage_class_name());
  if (storage_class != nullptr && !storage_class->allow_volume_expansion()) {
    return Error(StatusCode::kFailedPrecondition,
                 "StorageClass '{}' does not allow volumes to grow (allowVolumeExpansion)",
                 storage_class->name());
  }
  const BlockVolume block = BlockVolumeOf(volume).value();
  ASSIGN_OR_RETURN(const Backends::Ptr backend, backends_.Of(block.cluster));
  ASSIGN_OR_RETURN(const block::ImageInfo grown, Passing<"blockoperator.grow">([&] {
                     return backend->Grow(block.image, wanted);
                   }));
  if (grown.size_bytes >= wanted) return grown.size_bytes;
  return Error(StatusCode::kOutOfRange,
               "the image has {} bytes after the growth, fewer than the {} that were asked for",
               grown.size_bytes, wanted);
}

}  // namespace berth::controllers::blockoperator
