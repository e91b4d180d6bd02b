// What the provisioner does with the intents that an earlier process left (claim_provisioning.h).
//
//   claim is there, unbound              the same call is made again
//   a PersistentVolume stands for it     nothing is left to do
//   claim is gone, or bound elsewhere    the same call is made again; what exists is deleted
//
// The last row is safe only if no other program has worked for the driver since: that one may have
// made the volume from the same name, and somebody may have kept it by the reclaim policy Retain
// and removed its PersistentVolume. Then the call would find that volume, and delete it. So where
// the intent is disputed it is dropped, unless no other program can have provisioned the claim: it
// is younger than the hour for which the API keeps events, and no event says so.
#include <algorithm>

#include "api/kinds/lease_names.h"
#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/provisioner/claim_provisioning.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::Status;
using base::StatusOr;

namespace {

// How long the API keeps events (kube-apiserver --event-ttl), less what clocks may differ.
constexpr std::chrono::minutes kEventsLast{55};

}  // namespace

ClaimProvisioning::Outcome ClaimProvisioning::TakeOverIntents() {
  const auto driver = driver_.info();
  if (driver == nullptr) return Outcome::Done();  // the driver's answer queues this again
  if (!attempts_.loaded()) {
    auto left = attempts_.Load(api::ProvisioningIntentsLease(
        driver->name, api::NodeName(options_.node_deployment.node_name)));
    if (!left.ok()) return AfterApi(left.status());
    for (Intent& intent : left->intents) undecided_.emplace_back(std::move(intent), left->disputed);
  }
  Status failed;
  std::erase_if(undecided_, [&](const auto& undecided) {
    const Status taken = TakeOverIntent(undecided.first, undecided.second, *driver);
    if (!taken.ok()) failed = taken;
    return taken.ok();
  });
  intents_known_ = true;
  if (undecided_.empty()) attempts_.FinishTakeOver();
  return AfterApi(failed.ok() ? attempts_.Flush() : failed);
}

Status ClaimProvisioning::TakeOverIntent(const Intent& intent, bool disputed,
                                         const DriverInfo& driver) {
  const Claim& recorded = *intent.claim;
  const auto current = claims_.Get(recorded.key());
  const bool there = current != nullptr && current->uid() == recorded.uid();
  const bool elsewhere = IsForAnotherNode(there ? *current : recorded);
  const auto object = volumes_.Get(intent.plan->volume_name);
  if (!elsewhere && object != nullptr && RefersTo(*object, recorded)) {
    attempts_.DropIntent(intent);
    return base::OkStatus();
  }
  const bool wanted = there && current->volume_name().empty();
  // Another program would not have asked this node's driver for a claim of another node.
  if (disputed && !wanted && !elsewhere) {
    bool others = context_.clock.Now() - intent.since > kEventsLast;
    if (!others) {
      ASSIGN_OR_RETURN(others, WasProvisionedByOther(recorded));
    }
    if (others) {
      LOG_WARNING(
          "an earlier process asked driver {} for volume {} of claim {}, which needs it no more. "
          "Another program may have worked for the driver since, so the volume is left alone: if "
          "the driver has it and no PersistentVolume names it, delete it by hand",
          base::Quote(driver.name), base::Quote(intent.plan->volume_name),
          base::Quote(recorded.key()));
      attempts_.DropIntent(intent);
      return base::OkStatus();
    }
  }
  LOG_INFO("an earlier process asked for volume {} of claim {}: its outcome is found out",
           base::Quote(intent.plan->volume_name), base::Quote(recorded.key()));
  attempts_.TakeOver(intent);
  // Only now, because a claim that went before was nobody's loss.
  if (!IsThere(recorded)) attempts_.KeepLostClaim(recorded, /*has_volume=*/false);
  return base::OkStatus();
}

StatusOr<bool> ClaimProvisioning::WasProvisionedByOther(const Claim& claim) const {
  const auto events =
      context_.client.List(api::kinds::kEvent, claim.ns(),
                           {.field_selector = fmt::format("involvedObject.uid={}", claim.uid())});
  // Without the right to read events it is not known, and nothing is deleted.
  if (events.status().code() == base::StatusCode::kPermissionDenied) return true;
  RETURN_IF_ERROR(events);
  return std::any_of(events->items.begin(), events->items.end(), [](const base::Json& event) {
    return base::json::String(event, {"reason"}) == "ProvisioningSucceeded";
  });
}

}  // namespace berth::controllers::provisioner
