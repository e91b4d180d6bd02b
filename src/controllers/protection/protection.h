// Keeps claims that pods use, and volumes that claims use, from vanishing (in Kubernetes: the
// pvc-protection and pv-protection controllers).
//
//   claim   [protected] ── deleted ──▶ [terminating] ── no pod on a node uses it ──▶ finalizer off
//   volume  [protected] ── deleted ──▶ [terminating] ── phase is not Bound ─────────▶ finalizer off
//
// The API server sets both finalizers at admission; where one is missing it is added. Before a
// claim is let go the pods of its namespace are listed anew: the informer may not have seen a pod
// that was just scheduled. A pod counts from when it has a node until it has terminated or is gone;
// a HostMount until it is gone.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/keyed_workers.h"
#include "controllers/controller.h"

namespace berth::controllers::protection {

struct Options {
  // HostMounts use claims too. Off where the API does not serve that kind.
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

  void Watch();
  Outcome SyncClaim(const std::string& key);
  Outcome SyncVolume(const std::string& key);
  bool InUse(const Claim& claim) const;
  // Asks the API itself.
  base::StatusOr<bool> InUseNow(const Claim& claim) const;

  const Context context_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::Pod>& pods_;
  kube::Informer<api::HostMount>* const host_mounts_;  // nullptr: off
  base::KeyedWorkers claim_workers_;
  base::KeyedWorkers volume_workers_;
};

}  // namespace berth::controllers::protection
