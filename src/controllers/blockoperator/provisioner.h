// Makes volumes of block.berth.dev for claims, and deletes them.
//
// A claim that the binder asked this provisioner to serve:
//
//   [asked] ── finalizer "provisioning" and the cluster written ──▶ [begun] ── Backend::Create ──┐
//                                                                                                ▼
//                          finalizer off, by the binder or here ◀── bound ◀── PersistentVolume made
//
// The image and the PersistentVolume have the same name, made from the claim's uid, so that every
// step can be done again. The finalizer is the durable record before the image is made: if a claim
// is deleted, or bound to another volume, before its PersistentVolume exists, its image is deleted
// first, and then the finalizer is removed.
//
// A volume that is Released, with policy Delete, made here:
//
//   [Released] ── no fence, no clean-up, no lock ── Backend::Delete ──▶ finalizer off ──▶ deleted
//
// A copy of another claim is made only while no pod uses that claim (quiet_copies.h). A snapshot
// (snapshots.h) never changes, so a volume is made from it at any time.
//
// Claims and volumes have a serial queue each; more workers are started where back ends are slow.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "api/kinds/block_kinds.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/blockoperator/backends.h"
#include "controllers/blockoperator/block_volume.h"
#include "controllers/blockoperator/claim_plan.h"
#include "controllers/blockoperator/image_progress.h"
#include "controllers/blockoperator/options.h"
#include "controllers/blockoperator/quiet_copies.h"
#include "controllers/blockoperator/uses.h"
#include "controllers/controller.h"

namespace berth::controllers::blockoperator {

// The subset of the claims for which Provisioner::SyncClaim could have something to do.
inline constexpr char kOpenClaims[] = "blockOpen";

class Provisioner {
 public:
  // `backends`, `proofs` and `copies` are borrowed.
  Provisioner(const Context& context, Backends& backends, NodeProofs& proofs, QuietCopies& copies,
              const Options& options);
  ~Provisioner() { Stop(); }

  void Start();
  void Stop();

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;
  using Cluster = api::StorageCluster;

  void AddIndexes();
  void AddHandlers();
  void WatchSources();
  void RetryClaims();
  void RetryVolumesOf(const std::string& cluster);

  // claims.cc
  Outcome SyncClaim(const std::string& key);
  Outcome Provision(const Claim& claim, const api::StorageClass& storage_class);
  Outcome Create(const Claim& claim, const api::StorageClass& storage_class, const Plan& plan);
  base::Status CheckUsable(const std::string& cluster, block::Backend& backend) const;
  base::StatusOr<Claim> BeginProvisioning(const Claim& claim, const Plan& plan);
  Outcome WriteVolume(const Claim& claim, const Volume& volume);
  // Deletes the image that may have been made for the claim, unless a PersistentVolume names it,
  // and then removes the finalizer. To be called if the claim needs no image any more.
  Outcome DeleteBegunImage(const Claim& claim);
  Outcome Release(const Claim& claim);
  Outcome Reschedule(const Claim& claim, const std::string& class_name, const base::Status& why);
  Outcome Failed(const Claim& claim, const std::string& class_name, const base::Status& why);

  // copies.cc
  // As Create, unless so many copies for claims of the namespace are under way that more of them
  // would leave no workers to others.
  Outcome ProvisionCopy(const Claim& claim, const api::StorageClass& storage_class,
                        const Plan& plan) ABSL_LOCKS_EXCLUDED(mutex_);
  // The image from which the claim's image is copied; "" for none. UNIMPLEMENTED: another program
  // fills the volume.
  base::StatusOr<std::string> SourceImage(const Claim& claim, const Plan& plan,
                                          block::Backend& backend);
  // The same of a claim that a BlockSnapshot fills.
  base::StatusOr<std::string> SnapshotImage(const Claim& claim, const Plan& plan);
  // Tells how far the copy is that this thread makes for the claim.
  ImageProgress ReportCopy(const Claim& claim, const block::NewImage& wanted) const;
  // Deletes the copy if a use of the source begins while the copy runs.
  base::StatusOr<block::ImageInfo> CreateCopy(const Claim& claim, const block::NewImage& wanted,
                                              block::Backend& backend);

  // volumes.cc
  Outcome SyncVolume(const std::string& key);
  base::Status SyncFinalizer(const Volume& volume);
  base::Status Destroy(const Volume& volume, const BlockVolume& block);
  // The sentence that says who may still use the volume; "" for nobody.
  base::StatusOr<std::string> FindHolder(const Volume& volume, const BlockVolume& block);
  // Has the storage fence the nodes that still have to take the volume off. The volume must be
  // Released and without a VolumeFence, so that nobody may use it.
  base::Status FenceOwingNodes(const Volume& volume, const BlockVolume& block,
                               block::Backend& backend);
  // The volume is deleted while `holder` may use it: usually a node that has not unmounted it yet.
  Outcome AwaitRelease(const Volume& volume, const std::string& holder) ABSL_LOCKS_EXCLUDED(mutex_);
  base::Status CheckAlone(const Volume& volume, const BlockVolume& block) const;

  const Context context_;
  Backends& backends_;
  const int copies_of_namespace_;
  const std::chrono::milliseconds copy_pause_;
  const std::chrono::milliseconds unmount_patience_;
  const std::chrono::milliseconds progress_patience_;
  const std::chrono::milliseconds unmount_pause_;  // until a held volume is looked at again
  const Uses uses_;
  QuietCopies& quiet_copies_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::StorageClass>& classes_;
  kube::Informer<api::Node>& nodes_;
  kube::Informer<Cluster>& clusters_;
  kube::Informer<api::VolumeFence>& fences_;
  kube::Informer<api::NodeCleanup>& cleanups_;
  kube::Informer<api::BlockSnapshot>& snapshots_;
  base::Mutex mutex_;
  // Since when the deletion of a volume has waited for who may use it, by the volume's uid.
  std::map<std::string, std::chrono::steady_clock::time_point> held_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> copies_ ABSL_GUARDED_BY(mutex_);  // under way, by namespace
  base::KeyedWorkers claim_workers_;
  base::KeyedWorkers volume_workers_;
};

// The options of the queue `name` of the block operator.
base::KeyedWorkers::Options QueueOptions(const char* name, const Options& options,
                                         base::FlightRecorder* flight);

}  // namespace berth::controllers::blockoperator
