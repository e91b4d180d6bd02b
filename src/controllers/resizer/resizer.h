// Grows volumes through one CSI driver, until the node takes over, and modifies them (modifier.h).
// In Kubernetes this is the sidecar external-resizer, with recovery from failed expansions.
//
// A bound claim that asks for more than its volume or its own status has, by
// status.allocatedResourceStatuses.storage:
//
//   [""] ── target written to status.allocatedResources ──▶ [ControllerResizeInProgress]
//    ▲                                                         │   │ ControllerExpandVolume
//    │  smaller request  ┌──── final: cannot be ───────────────┘   │ done,
//    │  or after a while │                                         │ PersistentVolume.spec.capacity
//    │                   ▼                                         │ written
//    ├── [ControllerResizeInfeasible]             ┌────────────────┴─────────────────┐
//    │                                            ▼ the node has a part              ▼ it has none
//    │                             [NodeResizePending] → [NodeResizeInProgress]   status.capacity,
//    │                                                          │                 [""]
//    └── at once ───────────────────────────── [NodeResizeInfeasible]
//
// While an expansion is in progress, the written target stays, even if the claim asks for another
// size meanwhile, because the driver may have begun. Only a final failure that this process saw
// lets another request take its place. FAILED_PRECONDITION means that the driver does not expand a
// volume in use: it is not called while a pod names the claim.
//
// For a driver without EXPAND_VOLUME whose nodes expand by themselves (node capability
// EXPAND_VOLUME) the new capacity is written and the node's part asked for, without a call. This
// capacity may be lower than the one before, if the nodes could not expand and the claim asks for
// less now. If the nodes cannot expand either, only an event is written.
//
// A volume of an in-tree plugin is expanded by the CSI driver that replaces the plugin
// (api/migration), if the claim's annotation storage-resizer names the driver. It is not modified.
//
// Verbs: get, list and watch, `patch` of PersistentVolumes and persistentvolumeclaims/status.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"
#include "controllers/resizer/bound_volume.h"

namespace berth::controllers::resizer {

class Modifier;

struct Options {
  std::chrono::milliseconds timeout{10000};  // of each RPC
  int workers = 10;
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{300000};
  std::chrono::milliseconds resync_period{600000};
  // After FAILED_PRECONDITION call the driver only when the claim is not in use. Without it pods
  // are not watched.
  bool handle_volume_inuse_error = true;
  // Give ControllerModifyVolume the names of claim and volume beside the class's parameters.
  bool extra_modify_metadata = false;
  // If each node has a resizer of its own: this one handles the volumes that this node reaches.
  std::string node_name;
};

class Resizer : public Controller {
 public:
  // `driver` is borrowed and outlives the resizer; it may be started before or after.
  Resizer(Context context, DriverConnection& driver, Options options = {});
  ~Resizer() override;

  std::string_view name() const override { return "resizer"; }
  void Start() override;
  void Stop() override;

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;
  using SteadyTime = std::chrono::steady_clock::time_point;
  // Who makes the volume larger.
  enum class Grower { kController, kNode, kNobody };
  struct Expanded {
    std::string size;
    bool node_part = false;
  };
  // What this process knows about a claim in addition to its object. Without it the worst is
  // assumed.
  struct ClaimState {
    // The driver's last answer was that it does not expand volumes in use.
    bool refused_in_use = false;
    // The last call failed for good: nothing is under way in the driver.
    bool failed_finally = false;
    // An impossible target is tried again at this time, or when the claim asks for another size.
    std::optional<SteadyTime> not_before;
    std::string request;  // at that time
  };

  void AddHandlers();
  Outcome SyncClaim(const std::string& key);
  Outcome Resync();
  // The size in bytes to which the volume must grow; nullopt: this controller has nothing to do.
  // The rules are those of expandAndRecover in the Go resizer.
  std::optional<int64_t> FindTargetSize(const Claim& claim, const Volume& volume,
                                        const DriverInfo& driver, const ClaimState& state) const;
  // The time until an impossible target is tried again; nullopt: now.
  std::optional<std::chrono::milliseconds> GetWaitTime(const Claim& claim);
  // Queues the claims whose volumes have the annotation of an expansion.
  void QueueExpandedVolumes();
  // Whether a pod that has not ended names the claim. Pods for which it was made do not count, as
  // with Go's resizer.
  bool IsInUse(const std::string& claim_key) const;
  // Queues the claims that only waited for the end of `pod`.
  void QueueClaimsLeftBy(const api::Pod& pod);

  // expand.cc
  Outcome Expand(const Claim& claim, const Volume& volume, const DriverInfo& driver,
                 int64_t target);
  base::StatusOr<Grower> FindGrower(const DriverInfo& driver);
  base::StatusOr<csi::v1::ControllerExpandVolumeRequest> MakeRequest(const Volume& volume,
                                                                     const DriverInfo& driver,
                                                                     int64_t target) const;
  base::StatusOr<Claim> WriteTarget(const Claim& claim, int64_t target);
  // Whether the driver has refused the claim because it was in use, and it still is.
  bool MustEndUse(const Claim& claim);
  base::StatusOr<Expanded> CallDriver(const csi::v1::ControllerExpandVolumeRequest& request,
                                      const Volume& volume);
  Outcome TellThatNobodyExpands(const Claim& claim, const DriverInfo& driver);
  Outcome TellUse(const Claim& claim, const DriverInfo& driver);
  Outcome HandleFailure(const Claim& claim, const DriverInfo& driver, const base::Status& status);
  base::Status WriteFailure(const Claim& claim, const std::string& message, bool infeasible);
  base::Status WriteVolume(const Volume& volume, const Claim& claim, const Expanded& expanded);
  // Whether the volume still has the annotation of an expansion whose last part, on the node, is
  // done.
  static bool HasEndedExpansion(const Claim& claim, const Volume& volume);
  base::Status ForgetOldCapacity(const Volume& volume);
  Outcome FinishExpansion(const Claim& claim, const Expanded& expanded);

  const Context context_;
  DriverConnection& driver_;
  const Options options_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  const BoundVolumes bound_volumes_;
  kube::Informer<api::Pod>* const pods_;  // null: in-use errors are tried again as others are
  base::Mutex mutex_;
  std::map<std::string, ClaimState> states_ ABSL_GUARDED_BY(mutex_);  // by the claim's key
  base::KeyedWorkers workers_;
  const std::unique_ptr<Modifier> modifier_;
};

}  // namespace berth::controllers::resizer
