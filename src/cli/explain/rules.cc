#include "cli/explain/rules.h"

#include <array>
#include <map>

namespace berth::cli::explain {

std::string_view NameOf(Link link) {
  constexpr std::array<std::string_view, 10> kNames = {
      "claim",  "volume", "snapshot", "node",       "attachment",
      "driver", "stage",  "publish",  "containers", "deletion"};
  return kNames[static_cast<size_t>(link)];
}

std::string_view NameOf(Owner owner) {
  constexpr std::array<std::string_view, 5> kNames = {"person", "driver", "controller",
                                                      "node agent", "kernel"};
  return kNames[static_cast<size_t>(owner)];
}

std::span<const Rule> AllRules() {
  // Of the rules for one link, a rule that explains the others comes before them.
  static constexpr std::array kRules = {
      // claim
      &ClaimMissing, &ClaimBeingDeleted, &WrongVolumeMode, &NoClass,
      // source
      &DataSourceMissing, &SnapshotNotReady, &BlockSnapshotNotReady, &CloneSourceUnbound,
      &ImageBeingCopied, &PopulatorAbsent, &SecretMissing, &WrongParameter,
      // the controllers whose turn it is
      &DriverStopped, &RoleStopped, &NoLeader,
      // volume
      &WrongTopology, &NoTopology, &NoCapacity, &ProvisionerAbsent, &ProvisioningFails, &VolumeLost,
      &VolumeTaken, &VolumeOfOtherMode, &NoVolumeFits, &WaitsForConsumer, &ExpansionInfeasible,
      &ExpansionFails, &ExpansionWaitsForNode, &ModificationFails,
      // snapshot
      &SnapshotSourceUnbound, &NoSnapshotClass, &SnapshotContentAbsent, &SnapshotterAbsent,
      &SnapshotFails,
      // node
      &NodeGone, &VolumesNodeGone, &AttachLimit, &NoScheduler, &Unschedulable,
      // attachment
      &InUseElsewhere, &AttachFails, &WaitsForAttachment,
      // driver
      &DriverRefused, &DriverAbsent,
      // mount
      &MountHung, &MountFails, &WorkRetries, &NodeDriverSilent, &BlockAgentSilent, &NodeHangs,
      &MountLost, &VolumeAbnormal,
      // containers
      &NoRuntime, &ConfigMissing, &ImageMissing, &ContainerFails, &ContainerEnded, &NotReady,
      // deletion
      &SnapshotBeingRestored, &SnapshotDeletionFails, &DeletionFails, &ImageBeingDeleted,
      &FinalizerLeft,
      // a role fails, and no other rule of the same link says why
      &RoleFails,
      // if nothing else holds
      &MountEventTells, &WaitsForRole};
  return kRules;
}

std::vector<Cause> FindCauses(const State& state) {
  // If the subject is being deleted, the causes that delay its deletion come first, because the
  // subject will not start any more.
  const auto rank = [&state](const Cause& cause) {
    return state.object.deleting() && cause.link == Link::kDeletion ? -1
                                                                    : static_cast<int>(cause.link);
  };
  std::multimap<int, Cause> found;  // of one rank, in the order of the rules
  for (const Rule rule : AllRules()) {
    std::optional<Cause> cause = rule(state);
    if (!cause.has_value()) continue;
    const int place = rank(*cause);
    found.emplace(place, *std::move(cause));
  }
  std::vector<Cause> causes;
  for (auto& [place, cause] : found) {
    // Two rules may report the same failed call.
    const bool seen = !causes.empty() && causes.back().summary == cause.summary;
    if (!seen) causes.push_back(std::move(cause));
  }
  return causes;
}

}  // namespace berth::cli::explain
