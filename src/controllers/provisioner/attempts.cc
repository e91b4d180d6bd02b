#include "controllers/provisioner/attempts.h"

#include <algorithm>

#include "controllers/well_known_names.h"

namespace berth::controllers::provisioner {

using base::MutexLock;

std::optional<Attempt> Attempts::FindLast(const std::string& uid) const {
  MutexLock lock(mutex_);
  const auto it = attempts_.find(uid);
  return it == attempts_.end() ? std::nullopt : std::optional<Attempt>(it->second);
}

base::Status Attempts::Open(const Claim& claim, Attempt attempt) {
  Intent intent{.claim = std::make_shared<const Claim>(claim),
                .storage_class = attempt.storage_class,
                .plan = attempt.plan,
                .inherited = attempt.earlier == Earlier::kInherited,
                .given_up = attempt.given_up,
                .since = attempt.since};
  const base::Status held = record_.HoldIntent(claim.uid(), intent);
  if (!record_.loaded()) wake_.record();
  RETURN_IF_ERROR(held);
  MutexLock lock(mutex_);
  attempts_[claim.uid()] = std::move(attempt);
  return base::OkStatus();
}

void Attempts::Record(const std::string& uid, Attempt attempt) {
  if (!attempt.open()) ReleaseIntent(uid);
  MutexLock lock(mutex_);
  attempts_[uid] = std::move(attempt);
}

void Attempts::ReleaseIntent(const std::string& uid) {
  if (record_.Release(uid)) wake_.record();
}

Earlier Attempts::FindEarlier(const Claim& claim) const {
  if (const std::optional<Attempt> last = FindLast(claim.uid())) return last->earlier;
  return claim.has_finalizer(kProvisioningFinalizer) ? Earlier::kInherited : Earlier::kNone;
}

bool Attempts::MayHaveVolume(const Claim& claim) const {
  const std::optional<Attempt> last = FindLast(claim.uid());
  if (last.has_value()) return last->open();
  if (FindEarlier(claim) == Earlier::kNone) return false;
  // If each node has a provisioner, the one whose node is selected made the call.
  return !node_deployment_.enabled() || claim.has_annotation(kSelectedNode);
}

void Attempts::SettleClaim(const Claim& claim) {
  size_t lost = 0;
  {
    MutexLock lock(mutex_);
    attempts_.erase(claim.uid());
    lost =
        std::erase_if(lost_, [&](const auto& entry) { return entry.second->uid() == claim.uid(); });
  }
  ReleaseIntent(claim.uid());
  // Another claim of that name may wait for the lost one to be settled.
  if (lost > 0) wake_.claim(claim.key());
}

void Attempts::KeepLostClaim(const Claim& claim, bool has_volume) {
  const std::optional<Attempt> last = FindLast(claim.uid());
  if (!last.has_value()) return;
  if (has_volume || !last->open()) {
    SettleClaim(claim);
    return;
  }
  // The claim as it would be if it were only about to be deleted.
  Claim deleted = claim;
  deleted.Set({"metadata", "deletionTimestamp"}, claim.creation_timestamp());
  {
    MutexLock lock(mutex_);
    const auto [begin, end] = lost_.equal_range(claim.key());
    const bool known = std::any_of(
        begin, end, [&](const auto& entry) { return entry.second->uid() == claim.uid(); });
    if (known) return;
    lost_.emplace(claim.key(), std::make_shared<const Claim>(std::move(deleted)));
  }
  wake_.claim(claim.key());
}

Attempts::ClaimPtr Attempts::FindLostClaim(const std::string& key) const {
  MutexLock lock(mutex_);
  const auto it = lost_.find(key);
  return it == lost_.end() ? nullptr : it->second;
}

void Attempts::TakeOver(const Intent& intent) {
  {
    MutexLock lock(mutex_);
    attempts_[intent.claim->uid()] = {
        .earlier = intent.inherited ? Earlier::kInherited : Earlier::kSameCall,
        .plan = intent.plan,
        .given_up = intent.given_up,
        .storage_class = intent.storage_class,
        .since = intent.since,
        .not_before = std::nullopt};
  }
  wake_.claim(intent.claim->key());
}

}  // namespace berth::controllers::provisioner
