// Makes volumes for claims that the binder asked this driver to serve (annotation
// storage-provisioner): from a claim to its PersistentVolume.
//
//   [asked] ── plan, finalizer "provisioning" written ──▶ [creating] ── CreateVolume ──▶ [made]
//      ▲                                                   │   ▲  │
//      │  final failure: event, finalizer off,             │   │  │ outcome unknown: the same call,
//      │  again after the backoff                          │   └──┘ also for a deleted claim
//      └───────────────────────────────────────────────────┘
//         the selected node has no room: selected-node is taken off, too, and the scheduler chooses
//         another node
//
// The finalizer is the durable record before the call: while the claim has it, a volume may exist
// in the driver that no object names, so the claim must not vanish. It is removed with the write
// that binds the claim, or when the driver has said that there is no volume. For a deleted claim
// with the finalizer the driver is asked once more: if the volume exists it gets its
// PersistentVolume, which is then deleted in the usual way. If somebody removes such a claim and
// its finalizer by force, the process remembers the claim until then (attempts.h).
//
// After a call with an unknown outcome not every failure proves that there is no volume
// (ProvesNoVolume, plan.h), and after the call of another process no failure does. Then the same
// volume is asked for until the driver gives it, and the events say why.
//
// A volume that the first call makes costs three writes: finalizer, PersistentVolume, event.
//
// In a node deployment (options.h) each node's provisioner serves the claims for which its node is
// selected. A claim that binds immediately has no node yet: it is served by the first provisioner
// with enough capacity that writes its own node to selected-node (node_deployment.cc).
//
// Thread-safe, for different keys; one key is not synced twice at a time. What the constructor
// takes is borrowed and outlives this object. An outcome Retry does not say whether the volume
// exists; Attempts does.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "api/kinds/kinds.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"
#include "controllers/provisioner/attempts.h"
#include "controllers/provisioner/data_sources.h"
#include "controllers/provisioner/node_election.h"
#include "controllers/provisioner/node_reach.h"
#include "controllers/provisioner/options.h"
#include "controllers/provisioner/plan.h"
#include "controllers/provisioner/volume_handles.h"

namespace berth::controllers::provisioner {

class ClaimProvisioning {
 public:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;

  ClaimProvisioning(const Context& context, DriverConnection& driver, const Options& options,
                    Attempts& attempts, DataSources& sources, VolumeHandles& handles,
                    const NodeReach& reach);

  // Does the next step for the claim `key`.
  Outcome SyncClaim(const std::string& key);
  // To be called when a node is selected for the claim of that uid, or the claim is gone.
  void EndElection(const std::string& uid) { election_.Forget(uid); }
  // To be called when the claim is gone from the API. If a volume of it may exist, the work on the
  // claim continues (attempts.h).
  void KeepLostClaim(const Claim& claim);
  // Removes the finalizer from claims that do not need this provisioner any more. To be called when
  // the process ends in order, because another program may take over. Stops at the first write that
  // fails.
  void ReleaseSettledClaims();

 private:
  using TopologyAnswer = base::StatusOr<std::optional<csi::v1::TopologyRequirement>>;

  // claim_provisioning.cc
  Outcome Provision(const Claim& claim, const DriverInfo& driver,
                    const api::StorageClass& storage_class);
  // Reads the rest of `inputs` and makes a plan from them. Returns an outcome if there can be no
  // plan now.
  std::variant<Plan, Outcome> MakeNewPlan(PlanInputs& inputs);
  TopologyAnswer FindTopology(const Claim& claim, const DriverInfo& driver,
                              const api::StorageClass& storage_class) const;
  Outcome CreateVolume(const Claim& claim, const PlanInputs& inputs, Plan plan);
  Outcome WriteVolume(const Claim& claim, const Volume& volume);
  std::string MakeIdentity(const DriverInfo& driver) const;

  // claim_failures.cc
  // The driver was not called, so the knowledge about the volume has not changed.
  Outcome FailBeforeCall(const Claim& claim, const api::StorageClass& storage_class,
                         const base::Status& status);
  // The call did not reach the driver, so `last` is still true.
  Outcome FailUnsentCall(const Claim& claim, const PlanInputs& inputs, Earlier earlier,
                         const std::optional<Attempt>& last, const base::Status& status);
  // The driver answered with a failure, or did not answer.
  Outcome FailCall(const Claim& claim, const PlanInputs& inputs, Earlier earlier,
                   const base::Status& status);
  // The driver made another volume than was asked for, so the volume is deleted.
  Outcome RefuseVolume(const Claim& claim, const Plan& plan,
                       const csi::v1::CreateVolumeRequest& asked, const csi::v1::Volume& volume,
                       const base::Status& why);
  // PersistentVolume `other` has the name of the claim's volume.
  Outcome ReportTakenName(const Claim& claim, const Volume& other);
  // Takes the selected node off, so that the scheduler chooses another one.
  Outcome RescheduleClaim(const Claim& claim, const base::Status& why);
  // Takes the finalizer off.
  Outcome ReleaseClaim(const Claim& claim);
  void ReportFailure(const Claim& claim, const std::string& class_name, const base::Status& status);

  // node_deployment.cc
  Outcome CompeteForClaim(const Claim& claim, const DriverInfo& driver,
                          const api::StorageClass& storage_class);
  // Whether the driver has room for the claim on this node; true if the driver does not say.
  bool HasRoom(const Claim& claim, const DriverInfo& driver, const api::StorageClass& storage_class,
               const TopologyAnswer& topology);

  const Context context_;
  DriverConnection& driver_;
  const Options& options_;
  Attempts& attempts_;
  DataSources& sources_;
  VolumeHandles& handles_;
  const NodeReach& reach_;
  const std::string identity_prefix_;  // "<ms>-<random>-" of this process
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::StorageClass>& classes_;
  kube::Informer<api::Node>& nodes_;
  kube::Informer<api::CsiNode>& csi_nodes_;
  NodeElection election_;
};

}  // namespace berth::controllers::provisioner
