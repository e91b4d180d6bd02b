// Binds claims to volumes, and keeps the phases of both (in Kubernetes: the
// persistentvolume-binder).
//
// A claim:
//
//   [unbound] ── a volume fits, or names the claim ──▶ bind ──▶ [Bound]
//      │  ▲                                                        │ its volume is gone, or is
//      │  └── its PersistentVolume appears ◀── provisioner         ▼ bound to another claim
//      │ no volume fits                             ▲           [Lost]
//      │                                            │
//      ├── annotation storage-provisioner is set ───┘
//      └── class waits for its first consumer: nothing is done until the scheduler has written
//          selected-node (then as above), or has pre-bound a volume
//
// bind writes, in this order, what is not there yet: PersistentVolume.spec.claimRef (with the
// claim's uid), claim.spec.volumeName and its annotations, claim.status. Each is a patch on the
// version that was read, so of two claims that want a volume one gets it. A volume that the
// provisioner made has a complete claimRef, and needs only the last two writes. After a stop in
// between, the binder continues with the next write: the claimRef reserves the volume, and the
// annotation bind-completed says that the claim's part is done.
//
// A volume:
//
//   [Pending] ──▶ [Available] ──▶ [Bound] ── claim gone (asked of the API itself) ──▶ [Released]
//                     ▲                                                                 │  │
//                     └────────── a person removes claimRef ────────────────────────────┘  │
//                   policy Delete, but neither CSI nor made by a provisioner; or Recycle   ▼
//                                                                                      [Failed]
//
// The provisioner deletes a released volume with policy Delete; one with Retain stays.
//
// The binder runs in a process of its own or with other controllers, and shares informers with
// them. Volumes have a queue of their own, so a volume's phase is written in parallel to its claim.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"

namespace berth::controllers::binder {

class Binder : public Controller {
 public:
  explicit Binder(Context context);
  ~Binder() override;

  std::string_view name() const override { return "binder"; }
  void Start() override;
  void Stop() override;

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;

  void AddHandlers();

  // claim_sync.cc
  Outcome SyncClaim(const std::string& key);
  Outcome SyncUnboundClaim(const Claim& claim);
  Outcome SyncBoundClaim(const Claim& claim);
  Outcome SyncClaimWithName(const Claim& claim, const std::string& class_name);
  // No volume fits: asks a provisioner for one, or reports why it does not.
  Outcome AskForVolume(const Claim& claim, const std::string& class_name);
  base::StatusOr<Claim> AssignDefaultClass(const Claim& claim, const std::string& class_name);
  base::Status Bind(const Volume& volume, const Claim& claim);
  base::Status WriteBoundStatus(const Volume& volume, const Claim& claim);
  Outcome LoseClaim(const Claim& claim, std::string_view reason, std::string_view message);

  // volume_sync.cc
  Outcome SyncVolume(const std::string& key);
  Outcome SyncVolumeOfClaim(const Volume& volume, const Claim& claim);
  Outcome ReleaseVolume(const Volume& volume);
  Outcome UnbindVolume(const Volume& volume);
  base::Status SetPhase(const Volume& volume, std::string_view phase,
                        std::string_view message = "");

  void Warn(const api::Object& object, std::string_view reason, std::string_view message);
  void NoteEvent(const api::Object& object, std::string_view reason, std::string_view message);

  const Context context_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::StorageClass>& classes_;
  kube::Informer<api::Pod>& pods_;
  base::KeyedWorkers claim_workers_;
  base::KeyedWorkers volume_workers_;
};

}  // namespace berth::controllers::binder
