// Why a volume's way is blocked: one small function for each cause, over a gathered State. Pure.
//
// A rule looks for its cause, and returns it with its proof, or returns nothing. The causes of a
// state are in the order of the chain, so the first one is what blocks. A cause is gone from the
// list as soon as it is cured.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/explain/state.h"

namespace berth::cli::explain {

// In the order in which a volume passes them.
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

enum class Owner { kPerson, kDriver, kController, kNodeAgent, kKernel };
std::string_view NameOf(Owner owner);

struct Cause {
  std::string_view id;  // "no-class"; stable, for programs
  Link link = Link::kClaim;
  bool waiting = false;  // nothing is wrong yet: it only waits
  std::string summary;
  std::vector<std::string> proof;
  Owner owner = Owner::kPerson;
  std::string step;     // what to do next; it can do no harm
  std::string command;  // that does the step, if there is one
};

using Rule = std::optional<Cause> (*)(const State&);

// All rules. Of those for the same link, the one that explains the others comes first.
std::span<const Rule> AllRules();

// The causes that hold, in the order of the chain; but if the subject is being deleted, what holds
// up its deletion comes first.
std::vector<Cause> CausesOf(const State& state);

// rules_claim.cc
std::optional<Cause> ClaimMissing(const State& state);
std::optional<Cause> NoClass(const State& state);
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
std::optional<Cause> CloneSourceUnbound(const State& state);
std::optional<Cause> PopulatorAbsent(const State& state);
std::optional<Cause> SecretMissing(const State& state);
std::optional<Cause> WrongParameter(const State& state);
std::optional<Cause> NoTopology(const State& state);
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
// rules_roles.cc
std::optional<Cause> NoLeader(const State& state);
std::optional<Cause> RoleFails(const State& state);
std::optional<Cause> WaitsForRole(const State& state);
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
std::optional<Cause> DeletionFails(const State& state);
std::optional<Cause> FinalizerLeft(const State& state);

}  // namespace berth::cli::explain
