#include "controllers/protection/protection.h"

#include <algorithm>

#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/indexes.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::protection {

using base::KeyedWorkers;
using base::Status;
using base::StatusOr;

namespace {

constexpr int64_t kPageSize = 500;

KeyedWorkers::Options QueueOptions(const char* name) {
  return {.name = name,
          .workers = 2,
          .retry_start = std::chrono::milliseconds(100),
          .retry_max = std::chrono::seconds(30)};
}

bool UsesClaim(const api::Pod& pod, const std::string& claim) {
  if (pod.node_name().empty() || pod.terminated()) return false;
  const std::vector<std::string> names = ClaimNames(pod);
  return std::find(names.begin(), names.end(), claim) != names.end();
}

// Whether `uses` is true for any object of kind T in the namespace, which is listed in pages.
template <typename T, typename Predicate>
StatusOr<bool> HasUser(kube::Client& client, const std::string& ns, Predicate uses) {
  kube::ListOptions options;
  options.limit = kPageSize;
  do {
    ASSIGN_OR_RETURN(kube::ListResult page, client.List(T::kInfo, ns, options));
    for (base::Json& item : page.items) {
      if (uses(T(std::move(item)))) return true;
    }
    options.continue_token = page.continue_token;
  } while (!options.continue_token.empty());
  return false;
}

}  // namespace

Protection::Protection(Context context, Options options)
    : context_(context),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      pods_(context.informers.Of<api::Pod>()),
      host_mounts_(options.host_mounts ? &context.informers.Of<api::HostMount>() : nullptr),
      claim_workers_(QueueOptions("protect-claims"),
                     [this](const std::string& key) { return SyncClaim(key); }),
      volume_workers_(QueueOptions("protect-volumes"),
                      [this](const std::string& key) { return SyncVolume(key); }) {
  AddPodIndexes(pods_);
  if (host_mounts_ != nullptr) AddHostMountIndexes(*host_mounts_);
  AddHandlers();
}

Protection::~Protection() { Stop(); }

void Protection::AddHandlers() {
  claims_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    if (change.after->deleting() == change.after->has_finalizer(kClaimProtection)) {
      claim_workers_.Add(change.key);
    }
  });
  volumes_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    if (change.after->deleting() == change.after->has_finalizer(kVolumeProtection)) {
      volume_workers_.Add(change.key);
    }
  });
  // Only the end of a pod can make its claims unused.
  pods_.AddHandler([this](const auto& change) {
    if (change.after != nullptr && !change.after->terminated()) return;
    const api::Pod& pod = change.latest();
    for (const std::string& claim : ClaimNames(pod)) {
      claim_workers_.Add(api::ObjectKey(pod.ns(), claim));
    }
  });
  if (host_mounts_ != nullptr) {
    host_mounts_->AddHandler([this](const auto& change) {
      if (change.after != nullptr) return;
      claim_workers_.Add(api::ObjectKey(change.before->ns(), change.before->claim_name()));
    });
  }
}

void Protection::Start() {
  claim_workers_.Start();
  volume_workers_.Start();
}

void Protection::Stop() {
  claim_workers_.Stop();
  volume_workers_.Stop();
}

bool Protection::IsInUse(const Claim& claim) const {
  for (const auto& pod : pods_.ByIndex(kPodsByClaim, claim.key())) {
    if (UsesClaim(*pod, claim.name())) return true;
  }
  return host_mounts_ != nullptr && !host_mounts_->ByIndex(kHostMountsByClaim, claim.key()).empty();
}

StatusOr<bool> Protection::IsInUseNow(const Claim& claim) const {
  ASSIGN_OR_RETURN(const bool by_pod,
                   HasUser<api::Pod>(context_.client, claim.ns(), [&](const api::Pod& pod) {
                     return UsesClaim(pod, claim.name());
                   }));
  if (by_pod || host_mounts_ == nullptr) return by_pod;
  return HasUser<api::HostMount>(context_.client, claim.ns(), [&](const api::HostMount& mount) {
    return mount.claim_name() == claim.name();
  });
}

Protection::Outcome Protection::SyncClaim(const std::string& key) {
  const auto claim = claims_.Get(key);
  if (claim == nullptr || claim->deleting() != claim->has_finalizer(kClaimProtection)) {
    return Outcome::Done();
  }
  if (!claim->deleting()) {
    return AfterApi(
        PatchAt(context_.client, claims_, *claim, FinalizersPatch(*claim, kClaimProtection, ""))
            .status());
  }
  if (IsInUse(*claim)) return Outcome::Done();  // the end of the use queues the claim again
  const StatusOr<bool> in_use = IsInUseNow(*claim);
  if (!in_use.ok()) return AfterApi(in_use.status());
  // The informer has not seen this use, so the end of the use may not queue the claim.
  if (*in_use) return Outcome::After(std::chrono::seconds(1));
  const Status released =
      PatchAt(context_.client, claims_, *claim, FinalizersPatch(*claim, "", kClaimProtection))
          .status();
  if (released.ok()) {
    LOG_INFO("the finalizer of claim {} is removed, because no pod uses the claim any more",
             base::Quote(key));
  }
  return AfterApi(released);
}

Protection::Outcome Protection::SyncVolume(const std::string& key) {
  const auto volume = volumes_.Get(key);
  if (volume == nullptr || volume->deleting() != volume->has_finalizer(kVolumeProtection)) {
    return Outcome::Done();
  }
  if (volume->deleting() && volume->phase() == "Bound") return Outcome::Done();
  const std::string_view add = volume->deleting() ? "" : kVolumeProtection;
  const std::string_view remove = volume->deleting() ? kVolumeProtection : "";
  const Status patched =
      PatchAt(context_.client, volumes_, *volume, FinalizersPatch(*volume, add, remove)).status();
  if (patched.ok() && volume->deleting()) {
    LOG_INFO("volume {} is bound to no claim any more: its finalizer is removed", base::Quote(key));
  }
  return AfterApi(patched);
}

}  // namespace berth::controllers::protection
