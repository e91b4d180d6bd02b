// What is known of each claim's CreateVolume: which call is running, which has an unknown outcome,
// and which must wait before it is tried again.
//
//   [none] ── intent recorded, call sent ──▶ [unknown] ◀──┐
//      ▲                                      │   │       │ no answer, or one that proves
//      │                                      │   └───────┘ nothing: the same call again
//      └──────────────────────────────────────┘
//        PersistentVolume written, or proof that there is no volume
//
// An attempt is open while a volume of it may exist that no object names. Open attempts outlive the
// process as intents (intents/intent_record.h), from which the next process continues.
//
// Older versions of Berth marked the claim with a finalizer in place of that. A claim that has it
// without an attempt here inherited an unknown outcome, whose request nobody knows.
//
// Thread-safe. It does not call the driver. Claims are shared and never changed.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "controllers/provisioner/intents/intent_record.h"
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
  // The plan of an attempt that was given up while its outcome was unknown; null: there is none.
  std::shared_ptr<const Plan> given_up;
  // The class from which the plans were made. Set if the attempt is open.
  std::shared_ptr<const api::StorageClass> storage_class;
  base::WallTime since;  // of the first call with this outcome
  // The same plan is not asked for before this time, because the driver said that it is impossible.
  std::optional<std::chrono::steady_clock::time_point> not_before;

  bool unknown() const { return earlier != Earlier::kNone; }
  bool open() const { return unknown() || given_up != nullptr; }
};

class Attempts {
 public:
  using Claim = api::PersistentVolumeClaim;
  using ClaimPtr = std::shared_ptr<const Claim>;

  struct Wake {
    // Called with the key of a claim that has something to do now.
    std::function<void(const std::string& key)> claim;
    // Called when the record of intents is to be read or written soon: Load or Flush.
    std::function<void()> record;
  };

  // The functions of `wake` only queue work; they and `client` outlive this object.
  Attempts(kube::Client& client, const Options& options, Wake wake)
      : node_deployment_(options.node_deployment),
        record_(client, options.intents),
        wake_(std::move(wake)) {}

  // The last attempt for the claim of that uid; nullopt if none was made.
  std::optional<Attempt> FindLast(const std::string& uid) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Records `attempt`, whose outcome is unknown, so that it outlives the process. To be called
  // before CreateVolume. On an error the last attempt is as it was; see IntentRecord::HoldIntent.
  base::Status Open(const Claim& claim, Attempt attempt) ABSL_LOCKS_EXCLUDED(mutex_);
  // Replaces the last attempt after the driver's answer.
  void Record(const std::string& uid, Attempt attempt) ABSL_LOCKS_EXCLUDED(mutex_);

  // What was asked for the claim before, by the last attempt or, without one, by the claim's
  // finalizer.
  Earlier FindEarlier(const Claim& claim) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether a volume for the claim may exist that no object names.
  bool MayHaveVolume(const Claim& claim) const ABSL_LOCKS_EXCLUDED(mutex_);

  // The outcome is known: there is a volume with an object, or none.
  void SettleClaim(const Claim& claim) ABSL_LOCKS_EXCLUDED(mutex_);

  // The claim is gone from the API. If its attempt is open and no PersistentVolume stands for it
  // (`has_volume`), it stays here as a deleted claim until it is settled.
  void KeepLostClaim(const Claim& claim, bool has_volume) ABSL_LOCKS_EXCLUDED(mutex_);
  // A claim of that key that KeepLostClaim kept; nullptr if there is none. It goes before another
  // claim of its name.
  ClaimPtr FindLostClaim(const std::string& key) const ABSL_LOCKS_EXCLUDED(mutex_);

  // The record of intents. Until it was loaded nothing may be asked for.
  bool loaded() const { return record_.loaded(); }
  base::StatusOr<IntentRecord::Left> Load(const std::string& lease) { return record_.Load(lease); }
  // Every intent that an earlier process left was taken over or dropped.
  void FinishTakeOver() { taken_over_ = true; }
  bool taken_over() const { return taken_over_; }
  // Continues what an earlier process left. The wake function is called for the claim.
  void TakeOver(const Intent& intent) ABSL_LOCKS_EXCLUDED(mutex_);
  // Drops what an earlier process left.
  void DropIntent(const Intent& intent) { ReleaseIntent(intent.claim->uid()); }
  base::Status Flush() { return record_.Flush(); }

 private:
  void ReleaseIntent(const std::string& uid);

  const NodeDeployment node_deployment_;
  IntentRecord record_;
  const Wake wake_;
  std::atomic<bool> taken_over_ = false;
  mutable base::Mutex mutex_;
  std::map<std::string, Attempt> attempts_ ABSL_GUARDED_BY(mutex_);    // by the claim's uid
  std::multimap<std::string, ClaimPtr> lost_ ABSL_GUARDED_BY(mutex_);  // by the claim's key
};

}  // namespace berth::controllers::provisioner
