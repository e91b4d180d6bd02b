#include "controllers/resizer/resizer.h"

#include <algorithm>

#include "api/quantity.h"
#include "controllers/claim_conditions.h"
#include "controllers/claims.h"
#include "controllers/indexes.h"
#include "controllers/queue_options.h"
#include "controllers/resizer/modifier.h"
#include "controllers/resizer/sizes.h"
#include "controllers/writes.h"

namespace berth::controllers::resizer {

using base::MutexLock;

namespace {

// The key that stands for the periodic check of all claims. No claim has this key.
constexpr char kResync[] = "resync";
// The subset of claims for which MayNeedExpansion is true: few of many thousands.
constexpr char kClaimsToResize[] = "toResize";
// The subset of volumes that have the annotation of an expansion.
constexpr char kExpandedVolumes[] = "expanded";

// Whether SyncClaim could have something to do.
bool MayNeedExpansion(const api::PersistentVolumeClaim& claim) {
  if (!IsBound(claim)) return false;
  return !claim.resize_status().empty() || claim.capacity().empty() ||
         BytesOf(claim.requested_storage()) > BytesOf(claim.capacity());
}

// Whether a volume of the pod names the claim. A claim that is made for a pod is not named there.
bool NamesClaim(const api::Pod& pod, const std::string& claim_key) {
  return std::ranges::any_of(pod.volumes(), [&](const api::PodVolume& volume) {
    return !volume.claim_name().empty() &&
           api::ObjectKey(pod.ns(), volume.claim_name()) == claim_key;
  });
}

kube::Informer<api::Pod>* PodsIf(bool wanted, kube::Informers& informers) {
  return wanted ? &informers.Of<api::Pod>() : nullptr;
}

}  // namespace

Resizer::Resizer(Context context, DriverConnection& driver, Options options)
    : context_(context),
      driver_(driver),
      options_(options),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      bound_volumes_(context.informers, options.node_name),
      pods_(PodsIf(options.handle_volume_inuse_error, context.informers)),
      workers_(
          MakeQueueOptions("resize", options_.workers, options_, context, driver.expected_name()),
          [this](const std::string& key) { return key == kResync ? Resync() : SyncClaim(key); }),
      modifier_(std::make_unique<Modifier>(context, driver, options)) {
  if (pods_ != nullptr) AddPodIndexes(*pods_);
  claims_.AddSubset(kClaimsToResize, &MayNeedExpansion);
  volumes_.AddSubset(kExpandedVolumes, [](const Volume& volume) {
    return volume.has_annotation(kPreResizeCapacity);
  });
  AddHandlers();
}

Resizer::~Resizer() { Stop(); }

void Resizer::AddHandlers() {
  claims_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) {
      MutexLock lock(mutex_);
      states_.erase(change.key);
      return;
    }
    if (!MayNeedExpansion(*change.after) &&
        (change.before == nullptr || !MayNeedExpansion(*change.before))) {
      return;
    }
    if (change.before != nullptr &&
        change.before->requested_storage() != change.after->requested_storage()) {
      workers_.AddNow(change.key);
    } else {
      workers_.Add(change.key);
    }
  });
  // An expansion that ended while no resizer ran.
  volumes_.AddHandler([this](const auto& change) {
    if (change.before == nullptr && change.after->has_annotation(kPreResizeCapacity)) {
      QueueExpandedVolumes();
    }
  });
  if (pods_ != nullptr) {
    pods_->AddHandler([this](const auto& change) {
      if (change.after == nullptr || change.after->terminated()) QueueClaimsLeftBy(change.latest());
    });
  }
  const auto all = [this] {
    for (const auto& claim : claims_.Subset(kClaimsToResize)) workers_.AddNow(claim->key());
    QueueExpandedVolumes();
  };
  bound_volumes_.OnNodeChange(all);
  driver_.OnReady(all);
}

void Resizer::Start() {
  if (options_.resync_period.count() > 0) workers_.AddAfter(kResync, options_.resync_period);
  workers_.Start();
  modifier_->Start();
}

void Resizer::Stop() {
  modifier_->Stop();
  workers_.Stop();
}

// Queues all claims that may need work. Keys that wait for their backoff keep waiting.
Resizer::Outcome Resizer::Resync() {
  for (const auto& claim : claims_.Subset(kClaimsToResize)) workers_.Add(claim->key());
  QueueExpandedVolumes();
  modifier_->Resync();
  return Outcome::After(options_.resync_period);
}

void Resizer::QueueExpandedVolumes() {
  for (const auto& volume : volumes_.Subset(kExpandedVolumes)) {
    if (!volume->has_claim_ref()) continue;
    workers_.Add(api::ObjectKey(volume->claim_namespace(), volume->claim_name()));
  }
}

bool Resizer::IsInUse(const std::string& claim_key) const {
  if (pods_ == nullptr) return false;
  const auto pods = pods_->ByIndex(kPodsByClaim, claim_key);
  return std::any_of(pods.begin(), pods.end(), [&](const auto& pod) {
    return !pod->terminated() && NamesClaim(*pod, claim_key);
  });
}

void Resizer::QueueClaimsLeftBy(const api::Pod& pod) {
  for (const std::string& claim : ClaimNames(pod)) {
    const std::string key = api::ObjectKey(pod.ns(), claim);
    MutexLock lock(mutex_);
    const auto state = states_.find(key);
    if (state == states_.end() || !state->second.refused_in_use || IsInUse(key)) continue;
    workers_.AddNow(key);
  }
}

std::optional<int64_t> Resizer::FindTargetSize(const Claim& claim, const Volume& volume,
                                               const DriverInfo& driver,
                                               const ClaimState& state) const {
  const std::string status = claim.resize_status();
  const int64_t requested = BytesOf(claim.requested_storage());
  const int64_t allocated = BytesOf(claim.allocated_storage());
  const int64_t last = allocated > 0 ? allocated : requested;
  const int64_t has = BytesOf(volume.capacity());
  const bool of_controller = status == kControllerInProgress || status == kControllerInfeasible;
  const bool of_node = status == kNodePending || status == kNodeInProgress;
  if (requested <= BytesOf(claim.capacity())) return std::nullopt;
  // A claim that was bound just now does not show a size yet.
  if (has >= requested && claim.capacity().empty()) return std::nullopt;
  if (has < requested) {
    // The node works on the last target; a larger request waits until it has finished.
    if (of_node) return has < last ? std::optional(last) : std::nullopt;
    // The node could not grow it. The controller does its part again before the node may try again.
    if (status == kNodeInfeasible) return last;
    // An expansion that the driver may have done in part is finished first.
    if (status == kControllerInProgress && !state.failed_finally) return last;
    return requested;
  }
  // The volume has the size, and the claim does not show it yet.
  if (of_node) return std::nullopt;
  if (status == kNodeInfeasible) {
    return driver.Has(DriverInfo::Rpc::EXPAND_VOLUME) ? last : requested;
  }
  // Without a target, an older resizer set this condition. The node finishes the expansion.
  if (allocated == 0 && !of_controller && HasCondition(claim, kFileSystemResizePending)) {
    return std::nullopt;
  }
  return last;
}

std::optional<std::chrono::milliseconds> Resizer::GetWaitTime(const Claim& claim) {
  const auto now = std::chrono::steady_clock::now();
  MutexLock lock(mutex_);
  ClaimState& state = states_[claim.key()];
  if (!state.not_before.has_value()) return std::nullopt;
  if (state.request == claim.requested_storage() && now < *state.not_before) {
    return std::chrono::ceil<std::chrono::milliseconds>(*state.not_before - now);
  }
  state.not_before.reset();
  return std::nullopt;
}

Resizer::Outcome Resizer::SyncClaim(const std::string& key) {
  const auto driver = driver_.info();
  const auto claim = claims_.Get(key);
  auto volume = bound_volumes_.OfWithInTree(claim.get(), driver.get());
  if (volume == nullptr) return Outcome::From(bound_volumes_.CheckSeen(claim.get()));
  if (HasEndedExpansion(*claim, *volume)) {
    const base::Status forgotten = ForgetOldCapacity(*volume);
    if (!forgotten.ok()) return AfterApi(forgotten);
    volume = bound_volumes_.OfWithInTree(claim.get(), driver.get());
    if (volume == nullptr) return Outcome::Done();
  }
  ClaimState state;
  {
    MutexLock lock(mutex_);
    if (const auto known = states_.find(key); known != states_.end()) state = known->second;
  }
  const std::optional<int64_t> target = FindTargetSize(*claim, *volume, *driver, state);
  if (!target.has_value()) {
    MutexLock lock(mutex_);
    states_.erase(key);
    return Outcome::Done();
  }
  if (const auto wait = GetWaitTime(*claim)) return Outcome::After(*wait);
  return Expand(*claim, *volume, *driver, *target);
}

}  // namespace berth::controllers::resizer
