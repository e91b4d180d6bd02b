// Rules for what happens on the node: stage, publish, mounts and processes.
#include <algorithm>
#include <set>

#include "api/kinds/csi_names.h"
#include "api/time.h"
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

using base::FlightKind;
using base::FlightRecord;

Link ToLink(const FlightRecord& call) {
  if (call.what.find("Stage") != std::string::npos ||
      call.what.find("Unstage") != std::string::npos) {
    return Link::kStage;
  }
  return call.what.find("ublish") != std::string::npos ? Link::kPublish : Link::kDriver;
}

// Returns the keys of the volume's own queue, of the pod's volumes, and of the host mount.
std::vector<std::string> CollectNodeKeys(const State& state) {
  std::set<std::string> keys;
  if (!state.driver.empty()) keys.insert(NodeKey(state));
  if (state.host_mount) keys.insert("host-mounts " + state.host_mount->key());
  if (state.pod) {
    const std::string own = fmt::format("volumes {}/", state.pod->uid());
    for (const base::FlightLog& log : state.logs) {
      for (const FlightRecord& record : log.records) {
        if (record.key.starts_with(own)) keys.insert(record.key);
      }
    }
  }
  return {keys.begin(), keys.end()};
}

// The problems of the node agent.
constexpr KnownError kNodeErrors[] = {
    {"SELinux labels", "selinux-conflict", Owner::kPerson,
     "give all containers that use the volume the same SELinux label, or wait until the pods "
     "that use it with another label have ended"},
    {"lifecycle mode", "driver-mode", Owner::kPerson,
     "create the driver's CSIDriver object, or list the mode in its volumeLifecycleModes if the "
     "driver serves such volumes; Berth tries again by itself"},
    {"read secret", "secret-missing", Owner::kPerson,
     "create the secret that the volume names, or allow the node to read it; Berth tries again "
     "by itself"},
    {"read CSIDriver", "driver-mode", Owner::kPerson,
     "allow the node to read the driver's CSIDriver object; Berth tries again by itself"},
    {"install it on the node", "utility-missing", Owner::kPerson,
     "install the utility on the node, or deploy its mount pod (docs/mount-pods.md); Berth tries "
     "again by itself"},
    {"hostPath type check failed", "host-path", Owner::kPerson,
     "make the path on the node, or correct the pod's hostPath; Berth tries again by itself"},
    {"", "node-error", Owner::kNodeAgent,
     "correct the problem that the message names; Berth tries again by itself"}};

bool IsBeingDeleted(const State& state) { return state.object.deleting(); }

// The newest of the pod's events with this reason whose message begins with `prefix`; nullptr:
// there is none. A pod's other volumes have events with the same reason.
const api::Event* FindVolumeEvent(const State& state, std::string_view reason,
                                  const std::string& prefix) {
  const api::Event* newest = nullptr;
  for (const api::Event& event : state.events) {
    if (event.String({"reason"}) != reason || event.String({"involvedObject", "kind"}) != "Pod" ||
        !event.String({"message"}).starts_with(prefix)) {
      continue;
    }
    if (newest == nullptr || newest->String({"lastTimestamp"}) <= event.String({"lastTimestamp"})) {
      newest = &event;
    }
  }
  return newest;
}

}  // namespace

// A child process or thread of the node agent itself (mount, umount, stat of a path) is blocked in
// the kernel. MountFails reports calls to the driver that hang.
std::optional<Cause> MountHung(const State& state) {
  for (const std::string& key : CollectNodeKeys(state)) {
    for (const FlightRecord* record : FindRecords(state, key)) {
      if (record->kind != FlightKind::kProcess && record->kind != FlightKind::kStep) continue;
      const auto process = state.processes.find(record->pid);
      if (process == state.processes.end() || !process->second.in_kernel()) continue;
      return Cause{
          .id = "mount-hung",
          .link = IsBeingDeleted(state) ? Link::kDeletion : Link::kPublish,
          .summary =
              fmt::format("'{}' hangs: process {} is blocked in the kernel",
                          record->target.empty() ? record->what : record->target, record->pid),
          .proof = {DescribeRecord(state, *record), DescribeProcess(process->second)},
          .owner = Owner::kKernel,
          .step =
              "no signal can end it. Restore what it waits for (a file system's server, a disk), "
              "or abort the wait ('umount --force', or the file 'abort' of the FUSE connection); "
              "Berth then tries again by itself",
          .command = SuggestWaitCommand(process->second)};
    }
  }
  return std::nullopt;
}

std::optional<Cause> MountFails(const State& state) {
  if (state.driver.empty()) return std::nullopt;
  const FlightRecord* call = FindBadCall(state, NodeKey(state));
  if (call == nullptr) return std::nullopt;
  return ExplainCall(state, IsBeingDeleted(state) ? Link::kDeletion : ToLink(*call), *call);
}

// Work of the node agent fails without a failed call. The record of its retry has the reason.
std::optional<Cause> WorkRetries(const State& state) {
  if (ConfigMissing(state).has_value()) return std::nullopt;
  for (const std::string& key : CollectNodeKeys(state)) {
    if (FindBadCall(state, key) != nullptr) continue;  // the call tells more about the failure
    const FlightRecord* retry = nullptr;
    // Only the newest retry counts, because an earlier problem may be cured.
    for (const FlightRecord* record : FindRecords(state, key)) {
      if (record->kind == FlightKind::kRetry) retry = record;
    }
    if (retry == nullptr) continue;
    const KnownError& problem = FindKnownError(kNodeErrors, retry->message);
    return Cause{
        .id = problem.id,
        .link = IsBeingDeleted(state) ? Link::kDeletion : Link::kPublish,
        .summary = retry->message,
        .proof = {fmt::format("the node agent tried {} times in {}; {}", retry->count,
                              DescribeAge(state, retry->first), DescribeRetry(state, key))},
        .owner = problem.owner,
        .step = std::string(problem.step)};
  }
  return std::nullopt;
}

// The subject is a node, and a call for some volume hangs on it.
std::optional<Cause> NodeHangs(const State& state) {
  if (state.object.kind() != "Node") return std::nullopt;
  for (const base::FlightLog& log : state.logs) {
    for (const FlightRecord& record : log.records) {
      const bool call = record.kind == FlightKind::kCall && record.running && Hangs(state, record);
      if (!call || log.role != "node") continue;
      State of_volume = state;
      const std::string device = record.key.substr(record.key.find(' ') + 1);
      if (const auto name = api::ParseUniqueVolumeName(device)) {
        of_volume.driver = name->driver;
        of_volume.handle = name->volume_handle;
      }
      Cause cause = ExplainCall(of_volume, Link::kStage, record);
      cause.proof.insert(cause.proof.begin(), fmt::format("for {}", record.key));
      return cause;
    }
  }
  return std::nullopt;
}

// The driver, or the handler of the pod's sandbox, reports an abnormal condition of a volume that
// is published. A volume whose device or server does not answer also keeps a deleted pod, because
// no signal ends a process that waits for it.
std::optional<Cause> VolumeAbnormal(const State& state) {
  if (!state.pod || state.pod->terminated()) return std::nullopt;
  const std::string prefix = fmt::format("Volume {}: ", state.volume_name);
  const api::Event* abnormal = FindVolumeEvent(state, "VolumeConditionAbnormal", prefix);
  const api::Event* normal = FindVolumeEvent(state, "VolumeConditionNormal", prefix);
  if (abnormal == nullptr || (normal != nullptr && abnormal->String({"lastTimestamp"}) <
                                                       normal->String({"lastTimestamp"}))) {
    return std::nullopt;
  }
  const std::string condition = abnormal->String({"message"}).substr(prefix.size());
  const bool stalled = condition.find("does not answer") != std::string::npos;
  if (IsBeingDeleted(state) && !stalled) return std::nullopt;
  const bool in_sandbox =
      FindVolumeEvent(state, "RuntimeAssistedMount",
                      fmt::format("volume '{}': ", state.volume_name)) != nullptr;
  Cause cause{
      .id = "volume-abnormal",
      .link = Link::kPublish,
      .summary =
          fmt::format("volume '{}' is in an abnormal condition: {}", state.volume_name, condition),
      .proof = {fmt::format("{} reported this {} ago (event VolumeConditionAbnormal)",
                            in_sandbox ? "the handler of the pod's sandbox" : "its driver",
                            api::AgeSince(abnormal->String({"lastTimestamp"}), state.now))},
      .owner = Owner::kDriver,
      .step =
          "copy the data that can still be read, and correct the problem that the driver names"};
  if (!stalled) return cause;
  cause.id = "volume-stalled";
  cause.owner = Owner::kKernel;
  cause.step =
      "restore what it waits for (the disk, the storage, the share's server): the volume goes on "
      "by "
      "itself. Until then no signal ends a process that waits for it, so the pod does not end "
      "either, and nothing else may use the volume";
  if (IsBeingDeleted(state)) cause.link = Link::kDeletion;
  return cause;
}

// The FUSE server behind the mount has ended. A pod or host mount keeps the dead mount until its
// own end, so the event stays true as long as that object exists.
std::optional<Cause> MountLost(const State& state) {
  if (IsBeingDeleted(state) || (state.pod && state.pod->terminated())) return std::nullopt;
  const bool of_host = !state.pod && state.host_mount;
  const std::string prefix = fmt::format("volume '{}': ", state.volume_name);
  const api::Event* newest = nullptr;
  std::vector<std::string> proof;
  for (const api::Event& event : state.events) {
    const std::string message = event.String({"message"});
    if (event.String({"reason"}) != "VolumeMountLost" ||
        (!of_host && !message.starts_with(prefix))) {
      continue;
    }
    const std::string at = event.String({"lastTimestamp"});
    if (newest == nullptr || newest->String({"lastTimestamp"}) <= at) newest = &event;
    proof.push_back(
        fmt::format("{} ago (event VolumeMountLost): {}", api::AgeSince(at, state.now), message));
  }
  if (newest == nullptr) return std::nullopt;
  return Cause{.id = "mount-lost",
               .link = Link::kPublish,
               .summary = newest->String({"message"}),
               .proof = std::move(proof),
               .owner = Owner::kPerson,
               .step = of_host ? "unmount it and mount it again; find out why the server of its "
                                 "file system ended"
                               : "delete the pod: its controller makes a new one with a new mount; "
                                 "find out why the server of its file system ended"};
}

}  // namespace berth::cli::explain
