// Changes volumes to another VolumeAttributesClass through one CSI driver (ControllerModifyVolume).
//
// A bound claim whose spec.volumeAttributesClassName is not
// status.currentVolumeAttributesClassName, by status.modifyVolumeStatus:
//
//   [none] ── target and InProgress written ──▶ [InProgress] ── ControllerModifyVolume ──▶ done:
//    │                                           │ ▲   │ ▲ ▲      the volume's and claim's class
//    │                                           │ │   └─┘ │ failed, or unknown: again
//    │                         INVALID_ARGUMENT: │ │       │
//    │                        nothing is changed │ │ another class, or after a while
//    │                                           ▼ │       │
//    │                                        [Infeasible] │
//    │ the class does not exist                            │
//    └──▶ [Pending] ── the class appears, or another one ──┘
//
// While a modification is in progress, the written target stays, even if the claim asks for another
// class meanwhile, because the driver may have begun. Only a final failure that this process saw
// lets another class take its place; the old class is then applied again, too, because the driver
// may have changed a part. If the class of that target is gone meanwhile, only an event says so,
// and it is looked for again.
//
// A claim that asks for no class any more keeps the target of a modification that is in progress.
// Otherwise nothing is done for it: it loses the condition ModifyingVolume and keeps the rest, as
// with Go's resizer.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "controllers/resizer/resizer.h"

namespace berth::controllers::resizer {

class Modifier {
 public:
  // `driver` is borrowed and outlives the modifier.
  Modifier(Context context, DriverConnection& driver, Options options);
  ~Modifier();

  void Start();
  void Stop();
  // Queues all claims that may need a modification.
  void Resync();

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;
  using Class = api::VolumeAttributesClass;
  // What this process knows about a claim in addition to its object. Without it the worst is
  // assumed.
  struct ClaimState {
    bool failed_finally = false;
    std::optional<std::chrono::steady_clock::time_point> not_before;
    std::string wish;           // at that time
    std::string missing_class;  // an event has said that it does not exist
  };

  Outcome SyncClaim(const std::string& key);
  // `goes_on`: `target` is that of a modification whose outcome is not known.
  Outcome Modify(const Claim& claim, const Volume& volume, const DriverInfo& driver,
                 const std::string& target, bool goes_on);
  base::StatusOr<csi::v1::ControllerModifyVolumeRequest> MakeRequest(const Claim& claim,
                                                                     const Volume& volume,
                                                                     const Class& target) const;
  base::StatusOr<Claim> WriteTarget(const Claim& claim, const std::string& target);
  Outcome Finish(const Claim& claim, const Volume& volume, const std::string& target);
  // No class is asked for, and no modification is in progress.
  Outcome RollBack(const Claim& claim);
  void TellMissingClass(const Claim& claim, const std::string& name);
  // The class of a modification that may have begun is missing: the record stays as it is.
  Outcome AskForClass(const Claim& claim, const std::string& name);
  // The class is missing, and nothing is under way in the driver.
  Outcome WaitForClass(const Claim& claim, const std::string& name);
  Outcome HandleFailure(const Claim& claim, const base::Status& status);
  void WatchClasses();
  // Queues the claims that ask for the class.
  void QueueClaimsOf(const std::string& class_name);

  const Context context_;
  DriverConnection& driver_;
  const Options options_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  const BoundVolumes bound_volumes_;
  base::Mutex mutex_;
  std::map<std::string, ClaimState> states_ ABSL_GUARDED_BY(mutex_);  // by the claim's key
  base::KeyedWorkers workers_;
  // Made when a claim first waits for a class, because an API that does not serve the kind yet must
  // not stop the other informers from syncing, and most clusters never need it.
  std::unique_ptr<kube::Informer<Class>> classes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::controllers::resizer
