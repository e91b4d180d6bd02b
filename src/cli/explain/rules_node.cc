// Rules from a bound volume to a node that may use it.
#include <algorithm>

#include "api/kinds/csi_names.h"
#include "api/time.h"
#include "cli/explain/evidence.h"
#include "cli/explain/nodes.h"

namespace berth::cli::explain {
namespace {

std::string ConditionText(const api::Node& node) {
  const base::Json* ready = node.condition("Ready");
  if (ready == nullptr) return fmt::format("node '{}' has no condition Ready", node.name());
  return fmt::format("node '{}': Ready is {} ({}): {}", node.name(),
                     base::json::String(*ready, {"status"}), base::json::String(*ready, {"reason"}),
                     base::json::String(*ready, {"message"}));
}

bool IsNotReadyBecause(const api::Node& node, std::string_view reason) {
  const base::Json* ready = node.condition("Ready");
  return ready != nullptr && base::json::String(*ready, {"status"}) == "False" &&
         base::json::String(*ready, {"reason"}) == reason;
}

bool IsUnscheduled(const State& state) {
  return state.pod.has_value() && state.pod->node_name().empty() && !state.pod->terminated();
}

bool IsShareable(const State& state) {
  const std::vector<std::string> modes = state.volume->access_modes();
  return std::any_of(modes.begin(), modes.end(), [](const std::string& mode) {
    return mode == "ReadWriteMany" || mode == "ReadOnlyMany";
  });
}

// "node 'node-a': at most 3 volumes of the driver", for each node that names a limit.
std::vector<std::string> ListLimits(const State& state) {
  std::vector<std::string> out;
  for (const api::CsiNode& node : state.csi_nodes) {
    const auto driver = node.driver(state.driver);
    if (!driver.has_value() || !driver->allocatable_count.has_value()) continue;
    if (!state.node_name.empty() && node.name() != state.node_name) continue;
    out.push_back(fmt::format("node '{}': at most {} volumes of the driver (CSINode)", node.name(),
                              *driver->allocatable_count));
  }
  return out;
}

// Returns the newest event in which the node agent says why the driver is not registered.
const api::Event* FindRefusalEvent(const State& state) {
  const api::Event* newest = nullptr;
  for (const char* reason : {"CSIDriverRefused", "CSINodeNotWritten"}) {
    for (const api::Event& event : state.events) {
      if (event.String({"reason"}) != reason ||
          event.String({"message"}).find(state.driver) == std::string::npos) {
        continue;
      }
      if (newest == nullptr ||
          newest->String({"lastTimestamp"}) <= event.String({"lastTimestamp"})) {
        newest = &event;
      }
    }
  }
  return newest;
}

}  // namespace

std::optional<Cause> NodeGone(const State& state) {
  if (state.node_name.empty()) return std::nullopt;
  Cause cause{.id = "node-gone", .link = Link::kNode, .owner = Owner::kPerson};
  if (!state.node) {
    cause.summary = fmt::format("node '{}' does not exist", state.node_name);
    cause.proof = {
        fmt::format("the API has no Node of that name, and {} is to be there", state.subject)};
    cause.step =
        "start the node agent of that node, or delete the pod or host mount that is to run there; "
        "the volume is then detached from that node";
    cause.command = "berth get nodes";
    return cause;
  }
  if (!IsSilent(*state.node)) return std::nullopt;
  const base::Json* ready = state.node->condition("Ready");
  cause.summary = fmt::format("node '{}' sends no heartbeats", state.node_name);
  cause.proof = {ConditionText(*state.node)};
  const std::string since = base::json::String(*ready, {"lastTransitionTime"});
  if (!since.empty()) cause.proof.push_back("since " + api::AgeSince(since, state.now));
  cause.step =
      "start the node again. If it is switched off for certain, set the taint out-of-service on "
      "it, so that its volumes are detached; never do that to a node that may still write";
  cause.command =
      fmt::format("kubectl taint node {} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
                  state.node_name);
  return cause;
}

std::optional<Cause> VolumesNodeGone(const State& state) {
  std::vector<const api::Node*> homes;
  std::string text;
  const bool pending = state.claim && !state.volume && state.claim->volume_name().empty();
  const std::string selected =
      pending ? state.claim->annotation("volume.kubernetes.io/selected-node") : "";
  const bool to_delete = state.volume && state.volume->phase() == "Released" &&
                         state.volume->reclaim_policy() == "Delete";
  if (!selected.empty()) {
    text = fmt::format("claim '{}' can get its volume only on", state.claim_key);
    for (const api::Node& node : state.nodes) {
      if (node.name() == selected) homes.push_back(&node);
    }
  } else if (state.volume && state.volume->node_affinity() != nullptr &&
             (IsUnscheduled(state) || to_delete)) {
    text = fmt::format("volume '{}' can be used only on", state.volume->name());
    for (const api::Node& node : state.nodes) {
      if (VolumeAllows(*state.volume, node)) homes.push_back(&node);
    }
  }
  if (homes.empty()) return std::nullopt;
  Cause cause{.id = "volumes-node-gone",
              .link = pending ? Link::kVolume : Link::kNode,
              .owner = Owner::kPerson};
  for (const api::Node* node : homes) {
    if (!IsSilent(*node)) return std::nullopt;
    cause.proof.push_back(ConditionText(*node));
  }
  cause.summary =
      fmt::format("{} {}, and no heartbeat comes from there", text, JoinNodeNames(homes));
  cause.step = to_delete ? "start the node again: the volume is then deleted there"
                         : "start the node again: Berth then continues by itself. If the node is "
                           "lost, restore the data from a snapshot or another copy";
  cause.command = "berth get nodes -o wide";
  return cause;
}

std::optional<Cause> NoRuntime(const State& state) {
  if (!state.pod && state.object.kind() != "Node") return std::nullopt;
  if (state.pod && state.pod->terminated()) return std::nullopt;
  const api::Node* lacking = nullptr;
  if (state.node) {
    if (IsNotReadyBecause(*state.node, "ContainerRuntimeNotReady")) lacking = &*state.node;
  } else if (IsUnscheduled(state)) {
    // This is a cause only if no wanted node has a runtime.
    for (const api::Node* node : FindWantedNodes(state)) {
      if (!IsNotReadyBecause(*node, "ContainerRuntimeNotReady")) return std::nullopt;
      lacking = node;
    }
  }
  if (lacking == nullptr) return std::nullopt;
  return Cause{.id = "no-runtime",
               .link = IsUnscheduled(state) ? Link::kNode : Link::kContainers,
               .summary = fmt::format("no container runtime answers on node '{}'", lacking->name()),
               .proof = {ConditionText(*lacking)},
               .owner = Owner::kPerson,
               .step =
                   "start the container runtime, or name its socket with 'berth up "
                   "--container-runtime-endpoint'; pods then start by themselves",
               .command = "systemctl status containerd"};
}

std::optional<Cause> WrongTopology(const State& state) {
  if (!state.wants_mount() || !state.claim || state.nodes.empty()) return std::nullopt;
  if (state.pod && state.pod->terminated()) return std::nullopt;
  std::vector<const api::Node*> reach;
  std::string text;
  if (state.volume && state.bound()) {
    for (const api::Node& node : state.nodes) {
      if (VolumeAllows(*state.volume, node)) reach.push_back(&node);
    }
    text = fmt::format("volume '{}'", state.volume->name());
  } else if (state.storage_class && !state.storage_class->allowed_topologies().empty()) {
    for (const api::Node& node : state.nodes) {
      if (ClassAllows(*state.storage_class, node)) reach.push_back(&node);
    }
    text = fmt::format("a volume of class '{}'", state.storage_class->name());
  } else {
    return std::nullopt;
  }
  const std::vector<const api::Node*> wanted = FindWantedNodes(state);
  for (const api::Node* node : wanted) {
    if (std::find(reach.begin(), reach.end(), node) != reach.end()) return std::nullopt;
  }
  if (wanted.empty() && !reach.empty() && !state.node_name.empty()) return std::nullopt;
  return Cause{
      .id = "wrong-topology",
      .link = Link::kVolume,
      .summary =
          fmt::format("{} cannot be reached from the nodes where {} may run", text, state.subject),
      .proof = {fmt::format("nodes that reach the volume: {}", JoinNodeNames(reach)),
                fmt::format("nodes that {} asks for: {}", state.subject, JoinNodeNames(wanted))},
      .owner = Owner::kPerson,
      .step =
          "change its node selector or node name to a node that reaches the volume, or use a "
          "volume that its nodes reach",
      .command = state.volume ? fmt::format("berth get pv {} -o yaml", state.volume->name())
                              : fmt::format("berth get storageclass {} -o yaml",
                                            state.storage_class->name())};
}

// The driver can have no more volumes on the node: the scheduler finds no node with room, or the
// driver itself refuses to attach one more volume (RESOURCE_EXHAUSTED).
std::optional<Cause> AttachLimit(const State& state) {
  Cause cause{.id = "attach-limit",
              .link = Link::kNode,
              .owner = Owner::kPerson,
              .step =
                  "end pods whose volumes are on the node, or add a node; Berth then continues by "
                  "itself",
              .command = "berth get volumeattachments"};
  if (IsUnscheduled(state)) {
    const base::Json* scheduled = state.pod->condition("PodScheduled");
    const std::string message =
        scheduled == nullptr ? "" : base::json::String(*scheduled, {"message"});
    if (message.find("exceed max volume count") == std::string::npos) return std::nullopt;
    cause.summary = fmt::format("no node has room for another volume of driver '{}'", state.driver);
    cause.proof = ListLimits(state);
    cause.proof.push_back(fmt::format("scheduler: {}", message));
    return cause;
  }
  if (!state.attachment || state.attachment->attached() || state.attachment->deleting()) {
    return std::nullopt;
  }
  constexpr int64_t kResourceExhausted = 8;
  const base::Json& json = state.attachment->json();
  if (base::json::Int(json, {"status", "attachError", "errorCode"}, 0) != kResourceExhausted) {
    return std::nullopt;
  }
  cause.link = Link::kAttachment;
  cause.summary = fmt::format("driver '{}' has no room for another volume on node '{}'",
                              state.driver, state.node_name);
  cause.proof = ListLimits(state);
  cause.proof.push_back(fmt::format("VolumeAttachment '{}': {}", state.attachment->name(),
                                    state.attachment->attach_error()));
  return cause;
}

std::optional<Cause> Unschedulable(const State& state) {
  if (!IsUnscheduled(state)) return std::nullopt;
  const base::Json* scheduled = state.pod->condition("PodScheduled");
  const std::string message =
      scheduled == nullptr ? "" : base::json::String(*scheduled, {"message"});
  if (NoRuntime(state).has_value() || AttachLimit(state).has_value() ||
      InUseElsewhere(state).has_value() || NoScheduler(state).has_value()) {
    return std::nullopt;
  }
  return Cause{.id = "unscheduled",
               .link = Link::kNode,
               .waiting = message.empty(),
               .summary = message.empty() ? "the scheduler has not chosen a node yet"
                                          : fmt::format("no node takes the pod: {}", message),
               .proof = {message.empty() ? "the pod has no condition PodScheduled"
                                         : fmt::format("scheduler: {}", message)},
               .owner = message.empty() ? Owner::kController : Owner::kPerson,
               .step = message.empty()
                           ? "wait a few seconds; if nothing happens, check that a scheduler runs"
                           : "change the pod or a node, so that the pod fits on the node",
               .command = "berth get nodes -o wide"};
}

std::optional<Cause> InUseElsewhere(const State& state) {
  if (!state.bound() || !state.wants_mount()) return std::nullopt;
  if (state.pod && (state.pod->terminated() || state.pod->deleting())) return std::nullopt;
  Cause cause{.id = "in-use-elsewhere", .link = Link::kAttachment, .owner = Owner::kPerson};
  const std::vector<std::string> modes = state.claim->access_modes();
  const bool one_pod = std::find(modes.begin(), modes.end(), "ReadWriteOncePod") != modes.end();
  const std::string own_uid = state.pod ? state.pod->uid() : "";
  for (const api::Pod& other : state.claim_pods) {
    if (!one_pod || other.uid() == own_uid || other.node_name().empty()) continue;
    // Of two pods, the one that runs has the claim.
    if (state.pod && state.pod->phase() != "Pending") return std::nullopt;
    if (other.phase() == "Pending" && state.pod &&
        other.creation_timestamp() > state.pod->creation_timestamp()) {
      continue;
    }
    cause.summary = fmt::format("claim '{}' is for one pod at a time, and pod '{}' has it",
                                state.claim_key, other.key());
    cause.proof = {fmt::format("its access mode is ReadWriteOncePod; pod '{}' is {} on node '{}'",
                               other.key(), other.phase(), other.node_name())};
    cause.step = "wait until the other pod has ended, or delete it";
    cause.command = fmt::format("berth delete pod {} -n {}", other.name(), other.ns());
    return cause;
  }
  if (IsShareable(state) || state.node_name.empty()) return std::nullopt;
  if (state.attachment && state.attachment->attached()) return std::nullopt;
  for (const api::VolumeAttachment& other : state.attachments) {
    if (other.node_name() == state.node_name) continue;
    cause.summary =
        fmt::format("volume '{}' is in use on node '{}', and its access mode lets one node use it",
                    state.volume->name(), other.node_name());
    cause.proof = {fmt::format("VolumeAttachment '{}' to node '{}': {}{}", other.name(),
                               other.node_name(),
                               other.attached() ? "attached" : "not attached yet",
                               other.deleting() ? ", being deleted" : "")};
    for (const api::Pod& pod : state.claim_pods) {
      if (pod.node_name() != other.node_name()) continue;
      cause.proof.push_back(fmt::format("pod '{}' uses it there", pod.key()));
      cause.command = fmt::format("berth delete pod {} -n {}", pod.name(), pod.ns());
    }
    if (other.deleting()) cause.owner = Owner::kController;
    cause.step = cause.command.empty()
                     ? "the API shows no pod that uses it there: find out why it is not detached"
                     : "end the pods that use it there; Berth then detaches it by itself";
    if (cause.command.empty()) {
      cause.command = fmt::format("berth explain volumeattachment/{}", other.name());
    }
    return cause;
  }
  return std::nullopt;
}

std::optional<Cause> AttachFails(const State& state) {
  if (!state.attachment || state.attachment->deleting()) return std::nullopt;
  if (state.attachment->attached() || AttachLimit(state).has_value()) return std::nullopt;
  const std::string& name = state.attachment->name();
  if (const base::FlightRecord* call = FindBadCall(state, AttachKey(name))) {
    return ExplainCall(state, Link::kAttachment, *call);
  }
  const std::string error = state.attachment->attach_error();
  if (error.empty()) return std::nullopt;
  return ExplainAttachment(state, Link::kAttachment, "attach",
                           fmt::format("attaching to node '{}' fails", state.node_name), error);
}

std::optional<Cause> WaitsForAttachment(const State& state) {
  if (!state.bound() || !state.wants_mount() || state.driver.empty() || !state.needs_attach()) {
    return std::nullopt;
  }
  if (!state.node || state.object.deleting() || (state.pod && state.pod->terminated())) {
    return std::nullopt;
  }
  if (state.attachment && state.attachment->attached()) return std::nullopt;
  if (AttachFails(state).has_value() || InUseElsewhere(state).has_value()) return std::nullopt;
  Cause cause{
      .id = "waits-for-attachment",
      .link = Link::kAttachment,
      .waiting = true,
      .owner = Owner::kController,
      .step =
          "wait a few seconds; if nothing happens, check that the controllers of the driver "
          "run, and read their log"};
  if (state.attachment) {
    cause.summary =
        fmt::format("the attacher of '{}' has not answered yet", state.attachment->attacher());
    cause.proof = {fmt::format("VolumeAttachment '{}' has neither status.attached nor an error",
                               state.attachment->name())};
    cause.command = fmt::format("berth explain volumeattachment/{}", state.attachment->name());
  } else {
    cause.summary = fmt::format("volume '{}' is not attached to node '{}' yet",
                                state.volume->name(), state.node_name);
    cause.proof = {"the attach-detach controller has made no VolumeAttachment"};
  }
  if (!state.driver_object) {
    cause.proof.push_back(
        fmt::format("no CSIDriver '{}' says that its volumes need not be attached", state.driver));
  }
  return cause;
}

std::optional<Cause> DriverRefused(const State& state) {
  if (!DriverAbsent(state).has_value()) return std::nullopt;
  const api::Event* refusal = FindRefusalEvent(state);
  if (refusal == nullptr) return std::nullopt;
  const bool by_api = refusal->String({"reason"}) == "CSINodeNotWritten";
  return Cause{.id = "driver-refused",
               .link = Link::kDriver,
               .summary = fmt::format("the driver '{}' could not be registered on node '{}': {}",
                                      state.driver, state.node_name, refusal->String({"message"})),
               .proof = {fmt::format("event {} of node '{}', {} ago", refusal->String({"reason"}),
                                     state.node_name,
                                     api::AgeSince(refusal->String({"lastTimestamp"}), state.now)),
                         fmt::format("CSINode '{}' does not list the driver", state.node_name)},
               .owner = by_api ? Owner::kController : Owner::kDriver,
               .step = by_api
                           ? "check that the API answers and knows CSINodes; Berth tries again by "
                             "itself"
                           : "correct the problem that the message names; the driver is then "
                             "registered within two minutes, or at once if it creates its "
                             "registration socket again",
               .command = fmt::format("berth get csinode {} -o yaml", state.node_name)};
}

std::optional<Cause> DriverAbsent(const State& state) {
  if (state.driver.empty() || !state.bound() || !state.wants_mount()) return std::nullopt;
  if (!state.node || (state.pod && state.pod->terminated())) return std::nullopt;
  if (state.csi_node && state.csi_node->driver(state.driver).has_value()) return std::nullopt;
  std::vector<std::string> registered;
  if (state.csi_node) {
    for (const auto& driver : state.csi_node->drivers()) registered.push_back(driver.name);
  }
  return Cause{.id = "driver-absent",
               .link = Link::kDriver,
               .summary = fmt::format("the driver '{}' is not registered on node '{}'",
                                      state.driver, state.node_name),
               .proof = {fmt::format(
                   "CSINode '{}' lists: {}", state.node_name,
                   registered.empty() ? "none" : fmt::format("{}", fmt::join(registered, ", ")))},
               .owner = Owner::kDriver,
               .step =
                   "start the driver on that node; it registers by a socket in the kubelet "
                   "folder's plugins_registry, and the volume is mounted at once",
               .command = fmt::format("berth get csinode {} -o yaml", state.node_name)};
}

}  // namespace berth::cli::explain
