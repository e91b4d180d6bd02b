#include "controllers/blockoperator/grower.h"

#include "api/quantity.h"
#include "controllers/blockoperator/block_volume.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/writes.h"

namespace berth::controllers::blockoperator {

namespace {

bool IsBlockVolume(const api::PersistentVolume& volume) {
  return BlockVolumeOf(volume).has_value();
}

}  // namespace

Grower::Grower(const Context& context, Backends& backends, const Options& options)
    : backends_(backends),
      claims_(context.informers.Of<Claim>()),
      classes_(context.informers.Of<api::StorageClass>()),
      growth_(context, &IsBlockVolume),
      workers_(QueueOptions("block-grow", options, context.flight),
               [this](const std::string& key) { return SyncClaim(key); }) {
  growth_.WatchClaims(workers_);
}

Grower::Outcome Grower::SyncClaim(const std::string& key) {
  const auto claim = claims_.Get(key);
  if (claim == nullptr || claim->deleting()) return Outcome::Done();
  return growth_.SyncClaim(key, [this](const Claim& claim, const Volume& volume, int64_t wanted,
                                       int64_t) { return GrowImage(claim, volume, wanted); });
}

Grower::Outcome Grower::GrowImage(const Claim& claim, const Volume& volume, int64_t wanted) {
  // The API checks this when the claim is changed, but the class may have changed since.
  const auto storage_class = classes_.Get(volume.storage_class_name());
  if (storage_class != nullptr && !storage_class->allow_volume_expansion()) {
    return growth_.ReportFailure(
        claim, base::Error(StatusCode::kFailedPrecondition,
                           "StorageClass '{}' does not allow it (allowVolumeExpansion)",
                           storage_class->name()));
  }
  const BlockVolume block = BlockVolumeOf(volume).value();
  const StatusOr<Backends::Ptr> backend = backends_.Of(block.cluster);
  if (!backend.ok()) return growth_.ReportFailure(claim, backend.status());
  const StatusOr<Claim> resizing = growth_.BeginGrowth(claim);
  if (!resizing.ok()) return AfterApi(resizing.status());
  const auto grown =
      Passing<"blockoperator.grow">([&] { return (*backend)->Grow(block.image, wanted); });
  if (!grown.ok()) return growth_.ReportFailure(*resizing, grown.status());
  if (grown->size_bytes < wanted) {
    return growth_.ReportFailure(
        *resizing,
        base::Error(StatusCode::kOutOfRange, "the back end gave it {} bytes", grown->size_bytes));
  }
  return growth_.FinishGrowth(*resizing, volume, api::FormatBytes(grown->size_bytes));
}

}  // namespace berth::controllers::blockoperator
