#include "controllers/blockoperator/grower.h"

#include <array>

#include "api/quantity.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/claim_conditions.h"
#include "controllers/claims.h"
#include "controllers/writes.h"

namespace berth::controllers::blockoperator {

Grower::Grower(const Context& context, Backends& backends, const Options& options)
    : context_(context),
      backends_(backends),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      classes_(context.informers.Of<api::StorageClass>()),
      workers_(QueueOptions("block-grow", options, context.flight),
               [this](const std::string& key) { return Sync(key); }) {
  claims_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    const bool asks = change.before == nullptr ||
                      change.before->requested_storage() != change.after->requested_storage() ||
                      change.before->volume_name() != change.after->volume_name();
    if (asks) workers_.AddNow(change.key);
  });
  volumes_.AddHandler([this](const auto& change) {
    if (change.after != nullptr && change.before == nullptr &&
        BlockVolumeOf(*change.after).has_value()) {
      workers_.Add(api::ObjectKey(change.after->claim_namespace(), change.after->claim_name()));
    }
  });
}

Grower::Outcome Grower::Sync(const std::string& key) {
  const auto claim = claims_.Get(key);
  if (claim == nullptr || claim->deleting() || !IsBound(*claim)) return Outcome::Done();
  const auto volume = volumes_.Get(claim->volume_name());
  if (volume == nullptr || !RefersTo(*volume, *claim)) return Outcome::Done();
  const auto block = BlockVolumeOf(*volume);
  if (!block.has_value()) return Outcome::Done();
  const auto wanted = api::ParseBytes(claim->requested_storage());
  const auto has = api::ParseBytes(volume->capacity());
  if (!wanted.ok() || !has.ok()) return Outcome::Done();
  if (*wanted > *has) return Grow(*claim, *volume, *block, *wanted);
  // A crash came between the volume's new size and this.
  return HasCondition(*claim, kResizing) ? LeaveToNode(*claim) : Outcome::Done();
}

Grower::Outcome Grower::Grow(const Claim& claim, const Volume& volume, const BlockVolume& block,
                             int64_t wanted) {
  // The API sees to that for claims; the class may have changed since.
  const auto storage_class = classes_.Get(volume.storage_class_name());
  if (storage_class != nullptr && !storage_class->allow_volume_expansion()) {
    return Failed(claim, base::Error(StatusCode::kFailedPrecondition,
                                     "StorageClass '{}' does not allow it (allowVolumeExpansion)",
                                     storage_class->name()));
  }
  const StatusOr<Backends::Ptr> backend = backends_.Of(block.cluster);
  if (!backend.ok()) return Failed(claim, backend.status());
  const StatusOr<Claim> resizing = SayResizing(claim);
  if (!resizing.ok()) return AfterApi(resizing.status());
  const auto grown =
      Passing<"blockoperator.grow">([&] { return (*backend)->Grow(block.image, wanted); });
  if (!grown.ok()) return Failed(*resizing, grown.status());
  if (grown->size_bytes < wanted) {
    return Failed(*resizing, base::Error(StatusCode::kOutOfRange, "the back end gave it {} bytes",
                                         grown->size_bytes));
  }
  const auto written =
      PatchAt(context_.client, volumes_, volume,
              {{"spec", {{"capacity", {{"storage", api::FormatBytes(grown->size_bytes)}}}}}});
  if (!written.ok()) return AfterApi(written.status());
  return LeaveToNode(*resizing);
}

StatusOr<Grower::Claim> Grower::SayResizing(const Claim& claim) {
  if (HasCondition(claim, kResizing)) return claim;
  context_.events.Record(claim.reference(), base::EventType::kNormal, "Resizing",
                         fmt::format("growing the volume to {}", claim.requested_storage()));
  return PatchAt(
      context_.client, claims_, claim,
      {{"status",
        {{"conditions", Conditions(claim, {}, Condition(kResizing, "", context_.clock))}}}},
      "status");
}

Grower::Outcome Grower::LeaveToNode(const Claim& claim) {
  constexpr std::array kDone = {kResizing};
  return AfterApi(
      PatchAt(context_.client, claims_, claim,
              {{"status",
                {{"conditions", Conditions(claim, kDone,
                                           Condition(kFileSystemResizePending,
                                                     "waiting for the node to grow the file system",
                                                     context_.clock))}}}},
              "status")
          .status());
}

Grower::Outcome Grower::Failed(const Claim& claim, const Status& why) {
  context_.events.Record(
      claim.reference(), base::EventType::kWarning, "VolumeResizeFailed",
      fmt::format("growing the volume to {}: {}", claim.requested_storage(), base::Message(why)));
  return Outcome::Retry(why);
}

}  // namespace berth::controllers::blockoperator
