// Makes volumes for claims that the binder asked this driver to serve (annotation
// storage-provisioner): from a claim to its PersistentVolume.
//
//   [asked] ── plan, intent recorded ──▶ [creating] ── CreateVolume ──▶ [made]
//      ▲                                   │   ▲  │
//      │  final failure: event, intent     │   │  │ outcome unknown: the same call, also for a
//      │  off, a new plan after the backoff│   └──┘ claim that is gone
//      └───────────────────────────────────┘
//         the selected node has no room: selected-node is removed, too, and the scheduler chooses
//         another node
//
// The intent (intents/intent_record.h) is the durable record before the call: while it stands, a
// volume may exist in the driver that no object names. It is released when the volume has its
// PersistentVolume, or when the driver has said that there is no volume. Nothing marks the claim,
// so that another program can take over at any moment. If the claim is gone meanwhile, the driver
// is asked once more: if the volume exists it gets its PersistentVolume, which is then deleted in
// the usual way. The next process continues from the intents that it finds (claim_adoption.cc).
//
// After a call with an unknown outcome not every final failure proves that there is no volume
// (ProvesNoVolume, plan.h). Then the attempt is given up, and the next one reads class, source and
// node anew, as the Go provisioner does. If it asks for the same, its answer tells what the first
// one made; else that is deleted before the volume is asked for in another way. A claim that is
// gone is asked for until it is known what the driver has. After a call whose request is not known
// no failure proves anything, and only a selected node without room is given up.
//
// A volume that the first call makes costs four writes: intent, PersistentVolume and two events.
// Claims that are served at the same time share the writes of intents.
//
// A class of the in-tree plugin that the driver replaces is translated for the driver, and the
// PersistentVolume that is made is translated back (class_translation.h).
//
// In a node deployment (options.h) each node's provisioner serves the claims for which its node is
// selected. A claim that binds immediately has no node yet: it is served by the first provisioner
// with enough capacity that writes its own node to selected-node (node_deployment.cc).
//
// Thread-safe, for different keys; one key is not synced twice at a time. What the constructor
// takes is borrowed and outlives this object. An outcome Retry does not say whether the volume
// exists; Attempts does.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

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
  // Reads the intents that an earlier process left, and takes them over. Nothing is asked for
  // before that. One thread calls it.
  Outcome TakeOverIntents();

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
  // `handle` is the driver's for the volume.
  Outcome WriteVolume(const Claim& claim, const Volume& volume, const std::string& handle);
  std::string MakeIdentity(const DriverInfo& driver) const;

  // Whether the API still has the claim, and not another one of its name.
  bool IsThere(const Claim& claim) const;
  // Whether the node that is selected for the claim has another provisioner.
  bool IsForAnotherNode(const Claim& claim) const;

  // claim_adoption.cc
  // OK if the intent is taken over or dropped. Errors come from the API.
  base::Status TakeOverIntent(const Intent& intent, bool disputed, const DriverInfo& driver);
  // Whether another program has made and announced a volume for the claim since.
  base::StatusOr<bool> WasProvisionedByOther(const Claim& claim) const;

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
  // Ends the attempt for the claim, although an earlier call may have made the volume.
  void GiveAttemptUp(const Claim& claim);
  // Continues an attempt that was given up if `plan` is the same, or deletes what it made.
  void SettleGivenUp(const Claim& claim, const Plan& plan, const DriverInfo& driver);
  // The driver made another volume than was asked for, so the volume is deleted.
  Outcome RefuseVolume(const Claim& claim, const Plan& plan,
                       const csi::v1::CreateVolumeRequest& asked, const csi::v1::Volume& volume,
                       const base::Status& why);
  // PersistentVolume `other` has the name of the claim's volume.
  Outcome ReportTakenName(const Claim& claim, const Volume& other);
  // Removes the selected node, so that the scheduler chooses another one.
  Outcome RescheduleClaim(const Claim& claim, const base::Status& why);
  // Settles an attempt of this node for a claim that another node's provisioner serves.
  Outcome LeaveClaim(const Claim& claim, const Attempt& last, const DriverInfo& driver);
  // Deletes what the plan of an attempt that was given up may have made. OK: there is nothing of
  // it.
  base::Status TakeBackVolume(const Claim& claim, const Plan& plan, const DriverInfo& driver);
  // Deletes a volume that no object names. An error is told by an event.
  base::Status DeleteVolume(const Claim& claim, const Plan& plan, const std::string& handle,
                            const google::protobuf::Map<std::string, std::string>& secrets);
  // Settles a claim that is gone from the API if its attempt is not open. False: there is still
  // something to do for the claim.
  bool SettleIfGone(const Claim& claim);
  // Removes the finalizer of an older version (attempts.h).
  Outcome ReleaseClaim(const Claim& claim);
  // Record the events of a failure, of the beginning of a try, and of its success, in the Go
  // provisioner's words.
  void ReportFailure(const Claim& claim, const base::Status& status, std::string_view prefix = "");
  void ReportBeginning(const Claim& claim);
  void ReportSuccess(const Claim& claim, const Volume& volume);

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
  // The intents that TakeOverIntents has still to decide on, and whether each is disputed.
  std::vector<std::pair<Intent, bool>> undecided_;
  // TakeOverIntents has looked at each intent. Until then a claim that is there is not served,
  // because another call than the recorded one could be made for it.
  std::atomic<bool> intents_known_ = false;
};

}  // namespace berth::controllers::provisioner
