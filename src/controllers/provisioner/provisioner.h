// Makes volumes for claims and deletes them, through one CSI driver (in Kubernetes: the sidecar
// external-provisioner).
//
// This class owns the queues, and decides which change of an object queues which key. Its parts do
// the work:
//
//   queue             key                what is done
//   ---------------   ----------------   -------------------------------------------------------
//   provision         claim              ClaimProvisioning::SyncClaim     claim_provisioning.h
//                     "intents"          ClaimProvisioning::TakeOverIntents
//   delete-volume     PersistentVolume   VolumeDeletion::SyncVolume       volume_deletion.h
//   clone-source      claim              DataSources::ReleaseClone        data_sources.h
//   snapshot-source   VolumeSnapshot     DataSources::ReleaseSnapshot     data_sources.h
//
// Attempts (attempts.h) remembers each claim's last CreateVolume. VolumeHandles (volume_handles.h)
// knows to which PersistentVolume each volume of the driver belongs. NodeReach (node_reach.h)
// knows, in a node deployment (options.h), which volumes and sources this node handles.
//
// Start and Stop are called by one thread. The queue tries failed work again, and the failure shows
// in an event, a metric and the log; no failure ends the provisioner.
#pragma once

#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"
#include "controllers/provisioner/attempts.h"
#include "controllers/provisioner/claim_provisioning.h"
#include "controllers/provisioner/data_sources.h"
#include "controllers/provisioner/node_reach.h"
#include "controllers/provisioner/options.h"
#include "controllers/provisioner/volume_deletion.h"
#include "controllers/provisioner/volume_handles.h"

namespace berth::controllers::provisioner {

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

  void WatchClaims();
  void WatchVolumes();
  void WatchNodes();
  void WatchClasses();
  void WatchDriver();

  // Queues the open claims that ask for the driver.
  void QueueClaimsOf(const std::string& driver);
  // Queues the claim for which the volume was made, if it is open or lost.
  void QueueClaimOf(const Volume& volume);
  // Queues the claims that wait for this one as their source.
  void QueueClonesOf(const std::string& source_key);

  // Queues the record of intents to be read, or to be written soon.
  void QueueIntents();
  Outcome SyncIntents();
  Outcome SyncCloneSource(const std::string& key);
  Outcome SyncSnapshotSource(const std::string& key);
  Outcome SweepSnapshots();

  const Options options_;
  DriverConnection& driver_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::StorageClass>& classes_;
  kube::Informer<api::Node>& nodes_;
  kube::Informer<api::CsiNode>& csi_nodes_;
  kube::Informer<api::VolumeAttachment>& attachments_;
  bool started_ = false;  // used only by the thread that starts and stops

  Attempts attempts_;
  DataSources sources_;
  VolumeHandles handles_;
  const NodeReach reach_;
  ClaimProvisioning provisioning_;
  VolumeDeletion deletion_;

  // Last, because they use all of the above.
  base::KeyedWorkers claim_workers_;
  base::KeyedWorkers volume_workers_;
  base::KeyedWorkers source_workers_;
  base::KeyedWorkers snapshot_workers_;
};

}  // namespace berth::controllers::provisioner
