#include "controllers/claim_growth.h"

#include <array>

#include "api/quantity.h"
#include "base/log.h"
#include "controllers/claim_conditions.h"
#include "controllers/claims.h"
#include "controllers/writes.h"

namespace berth::controllers {

ClaimGrowth::ClaimGrowth(const Context& context, bool (*is_ours)(const Volume& volume))
    : context_(context),
      is_ours_(is_ours),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()) {}

void ClaimGrowth::WatchClaims(base::KeyedWorkers& queue) {
  claims_.AddHandler([&queue](const auto& change) {
    if (change.after == nullptr) return;
    const bool asks = change.before == nullptr ||
                      change.before->requested_storage() != change.after->requested_storage() ||
                      change.before->volume_name() != change.after->volume_name();
    if (asks) queue.AddNow(change.key);
  });
  volumes_.AddHandler([&queue, is_ours = is_ours_](const auto& change) {
    if (change.after == nullptr || !is_ours(*change.after)) return;
    if (change.before == nullptr ||
        change.before->annotation(kImageSize) != change.after->annotation(kImageSize)) {
      queue.Add(api::ObjectKey(change.after->claim_namespace(), change.after->claim_name()));
    }
  });
}

ClaimGrowth::Outcome ClaimGrowth::SyncClaim(const std::string& key, const Grow& grow) {
  const auto claim = claims_.Get(key);
  if (claim == nullptr || !IsBound(*claim)) return Outcome::Done();
  const auto volume = volumes_.Get(claim->volume_name());
  if (volume == nullptr || !RefersTo(*volume, *claim) || !is_ours_(*volume)) {
    return Outcome::Done();
  }
  const auto wanted = api::ParseBytes(claim->requested_storage());
  const auto has = api::ParseBytes(volume->capacity());
  if (!wanted.ok() || !has.ok()) return Outcome::Done();
  if (*wanted > *has) return grow(*claim, *volume, *wanted, *has);
  // The volume has its size already. If the claim still says Resizing, the process crashed before
  // it wrote the claim's condition.
  return HasCondition(*claim, kResizing) ? LeaveToNode(*claim) : Outcome::Done();
}

StatusOr<ClaimGrowth::Claim> ClaimGrowth::BeginGrowth(const Claim& claim) {
  if (HasCondition(claim, kResizing)) return claim;
  context_.events.Record(claim.reference(), base::EventType::kNormal, "Resizing",
                         fmt::format("growing the volume to {}", claim.requested_storage()));
  return PatchAt(context_.client, claims_, claim,
                 {{"status",
                   {{"conditions",
                     ReplaceConditions(claim, {}, MakeCondition(kResizing, "", context_.clock))}}}},
                 "status");
}

ClaimGrowth::Outcome ClaimGrowth::FinishGrowth(const Claim& claim, const Volume& volume,
                                               const std::string& capacity) {
  const auto written = PatchAt(context_.client, volumes_, volume,
                               {{"spec", {{"capacity", {{"storage", capacity}}}}}});
  if (!written.ok()) return AfterApi(written.status());
  LOG_INFO("volume {} of claim {} has grown from {} to {}: its file system is left to the node",
           base::Quote(volume.name()), base::Quote(claim.key()), base::Quote(volume.capacity()),
           base::Quote(capacity));
  return LeaveToNode(claim);
}

ClaimGrowth::Outcome ClaimGrowth::ReportFailure(const Claim& claim, const Status& why) {
  context_.events.Record(
      claim.reference(), base::EventType::kWarning, "VolumeResizeFailed",
      fmt::format("growing the volume to {}: {}", claim.requested_storage(), base::Message(why)));
  return Outcome::Retry(why);
}

ClaimGrowth::Outcome ClaimGrowth::LeaveToNode(const Claim& claim) {
  constexpr std::array kDone = {kResizing};
  return AfterApi(
      PatchAt(context_.client, claims_, claim,
              {{"status",
                {{"conditions",
                  ReplaceConditions(claim, kDone,
                                    MakeCondition(kFileSystemResizePending,
                                                  "waiting for the node to grow the file system",
                                                  context_.clock))}}}},
              "status")
          .status());
}

}  // namespace berth::controllers
