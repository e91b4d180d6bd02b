// Makes volumes for claims and deletes them, through one CSI driver (in Kubernetes: the sidecar
// external-provisioner).
//
// A claim that the binder asked this driver to serve (annotation storage-provisioner):
//
//   [asked] ── plan, finalizer "provisioning" written ──▶ [creating] ── CreateVolume ──┐
//      ▲                                                   │   │  ▲                    ▼
//      │  final failure: event, finalizer off,             │   │  │             PersistentVolume
//      │  again after the backoff                          │   │  │ outcome unknown: the same call,
//      └───────────────────────────────────────────────────┘   └──┘ also if the claim is deleted
//         no capacity on the selected node: selected-node off, too; the scheduler chooses anew
//
// The finalizer is the record that is durable before the call: while it stands a volume may exist
// in the driver that no object names, so the claim cannot vanish. It goes with the write that binds
// the claim, or when the driver has said that there is none. A deleted claim with it is asked for
// once more: if the volume exists it gets its PersistentVolume, which is then deleted in the usual
// way. A claim that somebody took away by force, finalizer and all, is remembered until then.
//
// After an unknown outcome not every failure tells that there is no volume (ProvesNoVolume), and
// after another process's not one does: the same is asked for until the driver gives it, and the
// events say why.
//
// A volume that is Released, with policy Delete, made by this driver, and named by no
// VolumeAttachment:
//
//   [Released] ── DeleteVolume ──▶ finalizer off ──▶ PersistentVolume deleted
//        ▲  │
//        └──┘ failure: event VolumeFailedDelete, again after the backoff
//
// Three writes for a volume that is made at the first call: finalizer, PersistentVolume, event.
//
// In a node deployment (options.h) each node's provisioner serves the claims that its node is
// selected for, and deletes the volumes that its node reaches. A claim that binds immediately has
// no node yet: the first provisioner with enough capacity to write its own into selected-node has
// it (node_election.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "api/kinds/kinds.h"
#include "base/keyed_workers.h"
#include "base/mutex.h"
#include "controllers/controller.h"
#include "controllers/data_source.h"
#include "controllers/driver_connection.h"
#include "controllers/provisioner/node_election.h"
#include "controllers/provisioner/plan.h"
#include "controllers/provisioner/snapshot.h"
#include "controllers/provisioner/snapshot_watch.h"

namespace berth::controllers::provisioner {

// Whether SyncVolume has nothing to do for a PersistentVolume, whichever driver made it.
bool IsSettled(const api::PersistentVolume& volume);

// Index: provisioner → the claims that ask for it, by either annotation, and are not bound or still
// have its finalizer: few of many thousands.
inline constexpr char kOpenClaimsByProvisioner[] = "provisioner";
// Index: "namespace/source" → unbound claims that are to be a copy of that claim.
inline constexpr char kClaimsBySource[] = "cloneSource";
// Index: "namespace/snapshot" → unbound claims that are to be filled from that snapshot.
inline constexpr char kClaimsBySnapshot[] = "snapshotSource";
// Index: a driver's volume (HandleKey) → the PersistentVolumes that stand for it.
inline constexpr char kVolumesByHandle[] = "handle";
inline std::string HandleKey(const std::string& driver, const std::string& handle) {
  return driver + "/" + handle;
}
// The key of the snapshots' queue that stands for a look at all of them.
inline constexpr char kSweep[] = "all";

class Provisioner : public Controller {
 public:
  // `driver` is borrowed and outlives the provisioner; it may be started before or after.
  Provisioner(Context context, DriverConnection& driver, Options options = {});
  ~Provisioner() override;

  std::string_view name() const override { return "provisioner"; }
  void Start() override;
  void Stop() override;

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;
  using TopologyAnswer = base::StatusOr<std::optional<csi::v1::TopologyRequirement>>;

  void AddIndexes();
  void WatchClaims();
  void WatchVolumes();
  void WatchNodes();
  void DriverReady();
  void RetryAll(const std::string& driver);
  void WakeClaimOf(const Volume& volume);
  // The claims that wait for this one as their source.
  void AddClonesOf(const std::string& source_key);

  // provision.cc
  Outcome SyncClaim(const std::string& key);
  bool IsOurs(const Claim& claim, const DriverInfo& driver) const;
  Outcome Provision(const Claim& claim, const DriverInfo& driver,
                    const api::StorageClass& storage_class);
  TopologyAnswer Topology(const Claim& claim, const DriverInfo& driver,
                          const api::StorageClass& storage_class) const;
  base::StatusOr<api::Labels> MutableParameters(const Claim& claim, const DriverInfo& driver) const;
  // A plan of what is there now, which `inputs` is completed with; or what is to be done instead.
  std::variant<Plan, Outcome> NewPlan(PlanInputs& inputs);
  Outcome NotAsked(const Claim& claim, const api::StorageClass& storage_class,
                   const base::Status& status);
  Outcome Create(const Claim& claim, const PlanInputs& inputs, Plan plan);
  std::string Identity(const DriverInfo& driver) const;
  // "" if the driver's volume is `volume_name`'s from now on; else the name of the volume that has
  // it.
  std::string TakeHandle(const std::string& handle, const std::string& driver,
                         const std::string& volume_name) ABSL_LOCKS_EXCLUDED(mutex_);
  Outcome WriteVolume(const Claim& claim, const Volume& volume);
  Outcome NameTaken(const Claim& claim, const Volume& other);
  void ReportFailure(const Claim& claim, const std::string& class_name, const base::Status& status);

  // node_deployment.cc
  // Whether this provisioner's node is to delete the volume.
  bool IsOurNodes(const Volume& volume) const;
  Outcome CompeteFor(const Claim& claim, const DriverInfo& driver,
                     const api::StorageClass& storage_class);
  // Whether no other node has the driver.
  bool IsAlone(const DriverInfo& driver) const;
  // Whether what the claim is to be filled from is within this node's reach; true where that is not
  // known.
  bool ReachesSource(const Claim& claim) const;
  // Whether the driver has room for the claim on this node; true where it does not say.
  bool HasRoom(const Claim& claim, const DriverInfo& driver, const api::StorageClass& storage_class,
               const TopologyAnswer& topology);

  // source.cc
  // UNIMPLEMENTED: another program fills the volume.
  base::StatusOr<std::optional<csi::v1::VolumeContentSource>> Source(const Claim& claim,
                                                                     const DriverInfo& driver);

  // snapshot_source.cc
  base::StatusOr<csi::v1::VolumeContentSource> SnapshotSource(const Claim& claim,
                                                              const std::string& source_name,
                                                              const DriverInfo& driver);
  base::Status WriteFinalizers(const api::VolumeSnapshot& snapshot, std::string_view add,
                               std::string_view remove);
  void WatchSnapshots() ABSL_LOCKS_EXCLUDED(mutex_);
  void StopSnapshotWatch() ABSL_LOCKS_EXCLUDED(mutex_);
  Outcome SyncSnapshotSource(const std::string& key);
  Outcome SweepSnapshots();

  // clone_source.cc
  base::StatusOr<csi::v1::VolumeContentSource> CloneSource(const Claim& claim,
                                                           const std::string& source_name,
                                                           const DriverInfo& driver);
  Outcome SyncCloneSource(const std::string& key);

  // delete.cc
  Outcome SyncVolume(const std::string& key);
  base::Status SyncVolumeFinalizer(const Volume& volume);
  Outcome DeleteVolume(const Volume& volume);
  base::Status CheckDetached(const DriverInfo& driver) const;
  Outcome DeletedInDriver(const Volume& volume, const base::Status& written);
  base::Status CheckAlone(const Volume& volume) const;
  base::Status DestroyInDriver(const Volume& volume);

  // attempts.cc
  // What this process knows of a claim's last CreateVolume.
  struct Attempt {
    // What the next call has to reckon with.
    Earlier earlier = Earlier::kNone;
    // Unknown: what is asked for again. None: what cannot be, with not_before; else null.
    std::shared_ptr<const Plan> plan;
    // None: the same is not asked for before, for it cannot be.
    std::optional<std::chrono::steady_clock::time_point> not_before;
    // False: this process has written the finalizer and no more.
    bool called = false;

    bool unknown() const { return earlier != Earlier::kNone; }
  };
  std::optional<Attempt> LastAttempt(const std::string& uid) const ABSL_LOCKS_EXCLUDED(mutex_);
  void SetAttempt(const std::string& uid, Attempt attempt) ABSL_LOCKS_EXCLUDED(mutex_);
  Earlier EarlierThan(const Claim& claim) const;
  // A volume of the claim's may exist that no object names.
  bool MayHaveVolume(const Claim& claim) const;
  // The call did not reach the driver: what was known before it, `last`, is known still.
  Outcome NotSent(const Claim& claim, const PlanInputs& inputs, Earlier earlier,
                  const std::optional<Attempt>& last, const base::Status& status);
  Outcome CreateFailed(const Claim& claim, const PlanInputs& inputs, Earlier earlier,
                       const base::Status& status);
  // The driver gave what was not asked for.
  Outcome Refuse(const Claim& claim, const Plan& plan, const csi::v1::CreateVolumeRequest& asked,
                 const csi::v1::Volume& volume, const base::Status& why);
  Outcome Reschedule(const Claim& claim, const base::Status& why);
  Outcome Release(const Claim& claim);
  // The outcome is known: a volume with an object, or none.
  void Settle(const Claim& claim) ABSL_LOCKS_EXCLUDED(mutex_);
  // Goes on with a claim that is gone while the outcome of its CreateVolume is unknown.
  void KeepLost(const Claim& claim) ABSL_LOCKS_EXCLUDED(mutex_);
  // The claim that a key of the queue stands for; null if there is nothing to do for it.
  std::shared_ptr<const Claim> ClaimOf(const std::string& key) const ABSL_LOCKS_EXCLUDED(mutex_);
  // At an orderly end: lets claims go that need this provisioner no more, for another program may
  // be the next.
  void ReleaseSettled();

  const Context context_;
  DriverConnection& driver_;
  const Options options_;
  const std::string identity_prefix_;  // "<ms>-<random>-" of this process
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::StorageClass>& classes_;
  kube::Informer<api::Node>& nodes_;
  kube::Informer<api::CsiNode>& csi_nodes_;
  kube::Informer<api::VolumeAttachment>& attachments_;
  mutable base::Mutex mutex_;
  std::map<std::string, Attempt> attempts_ ABSL_GUARDED_BY(mutex_);  // by the claim's uid
  // Claims that are gone although a volume of theirs may exist, by key. Another of that name has
  // its turn after them.
  std::multimap<std::string, std::shared_ptr<const Claim>> lost_ ABSL_GUARDED_BY(mutex_);
  // What CreateVolume gave for volumes whose objects this process has not deleted: handle to name.
  std::map<std::string, std::string> given_ ABSL_GUARDED_BY(mutex_);
  // Volumes that the driver has deleted, until the object says so by having lost the finalizer:
  // name to uid.
  std::map<std::string, std::string> destroyed_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SnapshotWatch> snapshot_watch_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool started_ = false;  // of the thread that starts and stops
  NodeElection election_;
  base::KeyedWorkers claim_workers_;
  base::KeyedWorkers volume_workers_;
  base::KeyedWorkers source_workers_;
  base::KeyedWorkers snapshot_workers_;
};

}  // namespace berth::controllers::provisioner
