#include "controllers/provisioner/attempts.h"

#include "controllers/names.h"

namespace berth::controllers::provisioner {

using base::MutexLock;

std::optional<Attempt> Attempts::FindLast(const std::string& uid) const {
  MutexLock lock(mutex_);
  const auto it = attempts_.find(uid);
  return it == attempts_.end() ? std::nullopt : std::optional<Attempt>(it->second);
}

void Attempts::Record(const std::string& uid, Attempt attempt) {
  MutexLock lock(mutex_);
  attempts_[uid] = std::move(attempt);
}

void Attempts::Forget(const std::string& uid) {
  MutexLock lock(mutex_);
  attempts_.erase(uid);
}

Earlier Attempts::FindEarlier(const Claim& claim) const {
  if (const std::optional<Attempt> last = FindLast(claim.uid())) return last->earlier;
  return claim.has_finalizer(kProvisioningFinalizer) ? Earlier::kInherited : Earlier::kNone;
}

bool Attempts::MayHaveVolume(const Claim& claim) const {
  const Earlier earlier = FindEarlier(claim);
  // If each node has a provisioner, only the one that made the call remembers it.
  if (earlier == Earlier::kInherited && node_deployment_.enabled() &&
      claim.annotation(kSelectedNode).empty()) {
    return FindLast(claim.uid()).has_value();
  }
  return earlier != Earlier::kNone;
}

void Attempts::SettleClaim(const Claim& claim) {
  MutexLock lock(mutex_);
  attempts_.erase(claim.uid());
  const size_t lost =
      std::erase_if(lost_, [&](const auto& entry) { return entry.second->uid() == claim.uid(); });
  // Another claim of that name may wait for the lost one to be settled.
  if (lost > 0) wake_claim_(claim.key());
}

void Attempts::KeepLostClaim(const Claim& claim, bool has_volume) {
  MutexLock lock(mutex_);
  const auto it = attempts_.find(claim.uid());
  if (it == attempts_.end()) return;
  if (has_volume || !it->second.unknown()) {
    attempts_.erase(it);
    return;
  }
  // The claim as it would be if the finalizer had held it.
  Claim held = claim;
  held.add_finalizer(kProvisioningFinalizer);
  held.Set({"metadata", "deletionTimestamp"}, claim.creation_timestamp());
  lost_.emplace(claim.key(), std::make_shared<const Claim>(std::move(held)));
  wake_claim_(claim.key());
}

Attempts::ClaimPtr Attempts::FindLostClaim(const std::string& key) const {
  MutexLock lock(mutex_);
  const auto it = lost_.find(key);
  return it == lost_.end() ? nullptr : it->second;
}

}  // namespace berth::controllers::provisioner
