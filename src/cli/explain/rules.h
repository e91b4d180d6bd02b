// The rules of `berth explain`: one small function for each cause that blocks or delays a volume.
// A rule has the name of its cause, and is a pure function of a gathered State.
//
// A rule returns its cause with the proof, or nullopt if the cause does not hold. The causes of a
// state are in the order of the chain, so the first cause is what blocks. A cause is no longer in
// the list as soon as it is cured.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/explain/state.h"

namespace berth::cli::explain {

// The links of the chain, in the order in which a volume passes them.
enum class Link {
  kClaim,       // the claim exists, and so does its class
  kVolume,      // provisioned and bound
  kSnapshot,    // the snapshot is taken and ready
  kNode,        // the pod has a node that is alive
  kAttachment,  // the volume is attached to that node
  kDriver,      // the driver is registered on that node
  kStage,       // NodeStageVolume
  kPublish,     // NodePublishVolume
  kContainers,  // sandbox, images, containers
  kDeletion,    // the subject is gone, if its deletion was requested
};
std::string_view NameOf(Link link);

// Says who can remove a cause.
enum class Owner { kPerson, kDriver, kController, kNodeAgent, kKernel };
std::string_view NameOf(Owner owner);

struct Cause {
  std::string_view id;  // "no-class"; stable, for programs
  Link link = Link::kClaim;
  bool waiting = false;  // it is not a fault, because the volume only waits
  std::string summary;
  std::vector<std::string> proof;
  Owner owner = Owner::kPerson;
  std::string step;     // what to do next; this can do no harm
  std::string command;  // a command for the step; empty: there is none
};

using Rule = std::optional<Cause> (*)(const State&);

// All rules. Of the rules for one link, a rule that explains the others comes before them.
std::span<const Rule> AllRules();

// Returns the causes that hold, in the order of the chain. If the subject is being deleted, the
// causes that delay its deletion come first.
std::vector<Cause> FindCauses(const State& state);

// rules_claim.cc
std::optional<Cause> ClaimMissing(const State& state);
std::optional<Cause> NoClass(const State& state);
std::optional<Cause> VolumeTaken(const State& state);
std::optional<Cause> VolumeOfOtherMode(const State& state);
std::optional<Cause> NoVolumeFits(const State& state);
std::optional<Cause> WaitsForConsumer(const State& state);
std::optional<Cause> ProvisionerAbsent(const State& state);
std::optional<Cause> NoCapacity(const State& state);
std::optional<Cause> ProvisioningFails(const State& state);
std::optional<Cause> VolumeLost(const State& state);
// rules_resize.cc
std::optional<Cause> ExpansionInfeasible(const State& state);
std::optional<Cause> ExpansionFails(const State& state);
std::optional<Cause> ExpansionWaitsForNode(const State& state);
std::optional<Cause> ModificationFails(const State& state);
// rules_snapshot.cc
std::optional<Cause> SnapshotSourceUnbound(const State& state);
std::optional<Cause> SnapshotContentAbsent(const State& state);
std::optional<Cause> NoSnapshotClass(const State& state);
std::optional<Cause> SnapshotterAbsent(const State& state);
std::optional<Cause> SnapshotFails(const State& state);
std::optional<Cause> SnapshotBeingRestored(const State& state);
std::optional<Cause> SnapshotDeletionFails(const State& state);
// rules_source.cc
std::optional<Cause> DataSourceMissing(const State& state);
std::optional<Cause> SnapshotNotReady(const State& state);
std::optional<Cause> BlockSnapshotNotReady(const State& state);
std::optional<Cause> CloneSourceUnbound(const State& state);
std::optional<Cause> PopulatorAbsent(const State& state);
std::optional<Cause> SecretMissing(const State& state);
std::optional<Cause> WrongParameter(const State& state);
std::optional<Cause> NoTopology(const State& state);
// rules_image.cc
std::optional<Cause> ImageBeingDeleted(const State& state);
std::optional<Cause> ImageBeingCopied(const State& state);
// rules_node.cc
std::optional<Cause> NodeGone(const State& state);
std::optional<Cause> VolumesNodeGone(const State& state);
std::optional<Cause> NoRuntime(const State& state);
std::optional<Cause> WrongTopology(const State& state);
std::optional<Cause> AttachLimit(const State& state);
std::optional<Cause> Unschedulable(const State& state);
std::optional<Cause> InUseElsewhere(const State& state);
std::optional<Cause> AttachFails(const State& state);
std::optional<Cause> WaitsForAttachment(const State& state);
std::optional<Cause> DriverRefused(const State& state);
std::optional<Cause> DriverAbsent(const State& state);
// rules_use.cc
std::optional<Cause> ClaimBeingDeleted(const State& state);
std::optional<Cause> WrongVolumeMode(const State& state);
std::optional<Cause> NoScheduler(const State& state);
std::optional<Cause> ConfigMissing(const State& state);
// rules_roles.cc
std::optional<Cause> DriverStopped(const State& state);
std::optional<Cause> RoleStopped(const State& state);
std::optional<Cause> NoLeader(const State& state);
std::optional<Cause> RoleFails(const State& state);
std::optional<Cause> WaitsForRole(const State& state);
// rules_kubelet.cc
std::optional<Cause> NodeDriverSilent(const State& state);
std::optional<Cause> BlockAgentSilent(const State& state);
std::optional<Cause> MountEventTells(const State& state);
// rules_mount.cc
std::optional<Cause> MountHung(const State& state);
std::optional<Cause> MountFails(const State& state);
std::optional<Cause> WorkRetries(const State& state);
std::optional<Cause> NodeHangs(const State& state);
std::optional<Cause> VolumeAbnormal(const State& state);
std::optional<Cause> MountLost(const State& state);
// rules_pod.cc
std::optional<Cause> ImageMissing(const State& state);
std::optional<Cause> ContainerFails(const State& state);
std::optional<Cause> ContainerEnded(const State& state);
std::optional<Cause> NotReady(const State& state);
std::optional<Cause> DeletionFails(const State& state);
std::optional<Cause> FinalizerLeft(const State& state);

}  // namespace berth::cli::explain
