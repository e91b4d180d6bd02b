// What this process remembers of each claim's CreateVolume: which call is running, which has an
// unknown outcome, and which must wait before it is tried again.
//
//   [none] ── finalizer written, call sent ──▶ [unknown] ◀──┐
//      ▲                                         │   │      │ no answer, or one that proves
//      │                                         │   └──────┘ nothing: the same call again
//      └─────────────────────────────────────────┘
//        PersistentVolume written, or proof that there is no volume
//
// The durable record is the finalizer on the claim (names.h); this memory only adds what the
// finalizer cannot say: with which request the call was made, so that the same request can be made
// again. A process that finds a finalizer without such a memory inherited an unknown outcome.
//
// Thread-safe. It calls neither the API nor the driver, so nothing here fails. Claims are shared
// and never changed.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "controllers/provisioner/options.h"
#include "controllers/provisioner/plan.h"

namespace berth::controllers::provisioner {

// A claim's last CreateVolume.
struct Attempt {
  // What the next call must consider.
  Earlier earlier = Earlier::kNone;
  // If the outcome is unknown, the plan that is asked for again. Else, with not_before, the plan
  // that the driver cannot fulfil. Else null.
  std::shared_ptr<const Plan> plan;
  // The same plan is not asked for before this time, because the driver said that it is impossible.
  std::optional<std::chrono::steady_clock::time_point> not_before;
  // False: this process has written the finalizer and has not called the driver.
  bool called = false;

  bool unknown() const { return earlier != Earlier::kNone; }
};

class Attempts {
 public:
  using Claim = api::PersistentVolumeClaim;
  using ClaimPtr = std::shared_ptr<const Claim>;

  // `wake_claim` is called with the key of a claim that has something to do now. It only queues the
  // key, and outlives this object.
  Attempts(NodeDeployment node_deployment, std::function<void(const std::string& key)> wake_claim)
      : node_deployment_(std::move(node_deployment)), wake_claim_(std::move(wake_claim)) {}

  // The last attempt for the claim of that uid; nullopt if this process made none.
  std::optional<Attempt> FindLast(const std::string& uid) const ABSL_LOCKS_EXCLUDED(mutex_);
  void Record(const std::string& uid, Attempt attempt) ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(const std::string& uid) ABSL_LOCKS_EXCLUDED(mutex_);

  // What was asked for the claim before, by this memory or, without one, by the claim's finalizer.
  Earlier FindEarlier(const Claim& claim) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a volume for the claim may exist that no object names.
  bool MayHaveVolume(const Claim& claim) const ABSL_LOCKS_EXCLUDED(mutex_);

  // The outcome is known: there is a volume with an object, or none.
  void SettleClaim(const Claim& claim) ABSL_LOCKS_EXCLUDED(mutex_);

  // The claim is gone from the API. If the outcome of its CreateVolume is unknown and no
  // PersistentVolume stands for it (`has_volume`), it stays here as a deleted claim that the
  // finalizer holds, until it is settled. A claim is lost in this way if somebody removes its
  // finalizer by force.
  void KeepLostClaim(const Claim& claim, bool has_volume) ABSL_LOCKS_EXCLUDED(mutex_);
  // A claim of that key that KeepLostClaim kept; nullptr if there is none. It goes before another
  // claim of its name.
  ClaimPtr FindLostClaim(const std::string& key) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const NodeDeployment node_deployment_;
  const std::function<void(const std::string& key)> wake_claim_;
  mutable base::Mutex mutex_;
  std::map<std::string, Attempt> attempts_ ABSL_GUARDED_BY(mutex_);    // by the claim's uid
  std::multimap<std::string, ClaimPtr> lost_ ABSL_GUARDED_BY(mutex_);  // by the claim's key
};

}  // namespace berth::controllers::provisioner
