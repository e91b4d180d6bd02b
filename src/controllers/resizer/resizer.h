// Grows volumes through one CSI driver, up to where the node takes over (in Kubernetes: the sidecar
// external-resizer, with recovery from failed expansions).
//
// A bound claim that asks for more than its volume or its own status has, by
// status.allocatedResourceStatuses.storage:
//
//   [""] ── target written to status.allocatedResources ──▶ [ControllerResizeInProgress]
//                                                              │   │ ControllerExpandVolume
//      smaller request   ┌──── final: cannot be ───────────────┘   │ done,
//      PersistentVolume.spec.capacity written
//           │            ▼                                          │
//           └── [ControllerResizeInfeasible]      ┌─────────────────┴────────────────┐
//                                                 ▼ the node has a part              ▼ it has none
//                                  [NodeResizePending] → the node agent's     status.capacity, [""]
//
// In progress, the target stays what was written, whatever is asked meanwhile: the driver may have
// begun. Only an infeasible one is given up for another request. FAILED_PRECONDITION means that the
// driver does not expand what is in use: the claim waits until no running pod uses it.
//
// A driver without EXPAND_VOLUME whose nodes expand by themselves (plugin capability
// VolumeExpansion) gets the new capacity written and the node's part asked for, without a call.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "api/kinds.h"
#include "base/keyed_workers.h"
#include "base/mutex.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"

namespace berth::controllers::resizer {

struct Options {
  std::chrono::milliseconds timeout{10000};  // of each RPC
  int workers = 10;
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{300000};
  // After FAILED_PRECONDITION wait until the claim is not in use, rather than trying again.
  bool handle_volume_inuse_error = true;
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
  struct Expanded {
    int64_t bytes = 0;
    bool node_part = false;
  };

  void Watch();
  Outcome SyncClaim(const std::string& key);
  // Bytes to grow to; nullopt: nothing for this controller to do.
  std::optional<int64_t> Target(const Claim& claim, const Volume& volume) const;
  Outcome Expand(const Claim& claim, const Volume& volume, const DriverInfo& driver,
                 int64_t target);
  base::StatusOr<Expanded> CallDriver(const Volume& volume, const DriverInfo& driver,
                                      int64_t target);
  Outcome ExpandFailed(const Claim& claim, const base::Status& status);
  base::Status WriteVolume(const Volume& volume, const Claim& claim, const Expanded& expanded);
  Outcome Finish(const Claim& claim, const Expanded& expanded);
  bool InUse(const Claim& claim) const;

  const Context context_;
  DriverConnection& driver_;
  const Options options_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::Pod>& pods_;
  base::Mutex mutex_;
  std::set<std::string> waiting_for_end_of_use_ ABSL_GUARDED_BY(mutex_);  // keys of claims
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::resizer
