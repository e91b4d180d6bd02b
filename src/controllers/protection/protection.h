// Keeps claims that pods use, and volumes that claims use, from vanishing (in Kubernetes: the
// pvc-protection and pv-protection controllers).
//
//   claim   [protected] ── deleted ──▶ [terminating] ── no pod on a node uses it ──▶ finalizer off
//   volume  [protected] ── deleted ──▶ [terminating] ── phase is not Bound ─────────▶ finalizer off
//
// The API server sets both finalizers at admission; the controller adds a missing one. Before it
// releases a claim, it lists the pods of the namespace anew, because the informer may not have seen
// a pod that was just scheduled. A pod counts as a user from the time it has a node until it has
// terminated or is gone; a HostMount counts until it is gone.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"

namespace berth::controllers::protection {

struct Options {
  // Whether HostMounts count as users of claims. False if the API does not serve that kind.
  bool host_mounts = true;
};

class Protection : public Controller {
 public:
  explicit Protection(Context context, Options options = {});
  ~Protection() override;

  std::string_view name() const override { return "protection"; }
  void Start() override;
  void Stop() override;

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;

  void AddHandlers();
  Outcome SyncClaim(const std::string& key);
  Outcome SyncVolume(const std::string& key);
  bool IsInUse(const Claim& claim) const;
  // As IsInUse, but asks the API itself.
  base::StatusOr<bool> IsInUseNow(const Claim& claim) const;

  const Context context_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::Pod>& pods_;
  kube::Informer<api::HostMount>* const host_mounts_;  // nullptr: HostMounts do not count
  base::KeyedWorkers claim_workers_;
  base::KeyedWorkers volume_workers_;
};

}  // namespace berth::controllers::protection
