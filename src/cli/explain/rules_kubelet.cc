// Rules for a node whose pods a kubelet runs. It keeps no flight record, so what it waits for shows
// at the sockets where it asks, if it runs on this machine, and in its events.
#include "api/time.h"
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

// Whether the node has work to do for the volumes: to set them up, or to take them down.
bool NodeHasWork(const State& state) {
  if (!state.pod || state.pod->terminated() || state.pod->node_name().empty()) return false;
  return state.object.deleting() || !IsReady(state);
}

constexpr std::string_view kCreateNamedSecret =
    "create the secret that the volume names, in the namespace that it names or else in the pod's; "
    "the kubelet tries again by itself";

// The errors of the kubelet's operations.
constexpr KnownError kKubeletErrors[] = {
    {"access denied by server", "access-denied", Owner::kPerson,
     "let the server's export allow this node's address and what the pod's mount options ask for; "
     "the kubelet tries again by itself"},
    {"failed to find the secret", "secret-missing", Owner::kPerson, kCreateNamedSecret},
    {"fetching NodeStageSecretRef", "secret-missing", Owner::kPerson, kCreateNamedSecret},
    {"fetching NodePublishSecretRef", "secret-missing", Owner::kPerson, kCreateNamedSecret},
    {"not found in the list of registered CSI drivers", "driver-absent", Owner::kDriver,
     "start the driver and its registrar on that node; the kubelet then tries again by itself"},
    {"code = DeadlineExceeded", "driver-hung", Owner::kDriver,
     "read the driver's log for this call; if it says nothing, restart the driver. The kubelet "
     "repeats the call, because its outcome is unknown"},
    {"code = Unavailable", "driver-absent", Owner::kDriver,
     "start the driver on that node, or find out why it ends; the kubelet tries again by itself"},
    {"block agent", "block-agent-absent", Owner::kNodeAgent,
     "start the block agent of that node, and read its log; the kubelet tries again by itself"},
    {"executable file not found", "utility-missing", Owner::kPerson,
     "install the utility on the node, or deploy its mount pod (docs/mount-pods.md); the kubelet "
     "tries again by itself"},
    {"rpc error", "driver-error", Owner::kDriver,
     "correct the problem that the driver names; the kubelet tries again by itself"},
    {"", "mount-fails", Owner::kPerson,
     "correct the problem that the message names; the node tries again by itself"}};

Link FindFailedLink(const api::Event& event) {
  if (event.String({"reason"}) == "FailedAttachVolume") return Link::kAttachment;
  return event.String({"message"}).find(".MountDevice failed") != std::string::npos
             ? Link::kStage
             : Link::kPublish;
}

// Adds the kubelet's event about the pod, if there is one, because it shows what waits.
void AddMountEvent(const State& state, Cause& cause) {
  const api::Event* event = FindMountEvent(state);
  if (event == nullptr) return;
  cause.proof.push_back(fmt::format("event {}, {} ago: {}", event->String({"reason"}),
                                    api::AgeSince(event->String({"lastTimestamp"}), state.now),
                                    event->String({"message"})));
}

// A program of the node that the kubelet asks for volumes.
struct Service {
  std::string name;  // for people
  Owner owner;
  std::string_view hung_id, absent_id;  // of the causes
};

// Returns the cause if no process serves the socket, or if a signal has stopped the one that does.
std::optional<Cause> ExplainSilence(const State& state, const std::string& socket,
                                    const Service& service) {
  const auto server = state.servers.find(socket);
  if (server == state.servers.end()) return std::nullopt;
  Cause cause{.link = state.object.deleting() ? Link::kDeletion : Link::kStage};
  if (const platform::ProcessInfo* stopped = FindStoppedServer(state, socket)) {
    cause.id = service.hung_id;
    cause.summary = fmt::format("{} answers nothing on node '{}'", service.name, state.node_name);
    AddStoppedProcess(*stopped, cause);
    cause.proof.push_back(fmt::format("it serves '{}'", socket));
  } else if (server->second.listening.code() == base::StatusCode::kUnavailable) {
    cause.id = service.absent_id;
    cause.summary = fmt::format("no process serves {} on node '{}'", service.name, state.node_name);
    cause.proof.emplace_back(base::Message(server->second.listening));
    cause.step =
        "start it on that node, or find out why it ends; the kubelet tries again by itself";
  } else {
    return std::nullopt;
  }
  cause.owner = service.owner;
  AddMountEvent(state, cause);
  return cause;
}

// The cause of the first of `sockets` that is silent.
std::optional<Cause> ExplainSilence(const State& state, const std::vector<std::string>& sockets,
                                    const Service& service) {
  for (const std::string& socket : sockets) {
    if (auto cause = ExplainSilence(state, socket, service)) return cause;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Cause> NodeDriverSilent(const State& state) {
  if (!NodeHasWork(state) || !state.bound()) return std::nullopt;
  return ExplainSilence(state, state.driver_sockets,
                        {.name = fmt::format("the driver '{}'", state.driver),
                         .owner = Owner::kDriver,
                         .hung_id = "driver-hung",
                         .absent_id = "driver-absent"});
}

std::optional<Cause> BlockAgentSilent(const State& state) {
  if (!NodeHasWork(state)) return std::nullopt;
  return ExplainSilence(state, state.agent_sockets,
                        {.name = "the block agent",
                         .owner = Owner::kNodeAgent,
                         .hung_id = "block-agent-hung",
                         .absent_id = "block-agent-absent"});
}

// The kubelet, or Berth's node agent, says in an event why the pod waits for a volume, and no other
// rule knows it.
std::optional<Cause> MountEventTells(const State& state) {
  if (!state.pod || state.object.deleting() || state.pod->terminated()) return std::nullopt;
  const api::Event* event = FindMountEvent(state);
  if (event == nullptr) return std::nullopt;
  for (const Rule rule : AllRules()) {
    if (rule != &MountEventTells && rule != &WaitsForRole && rule != &ContainerFails &&
        rule(state).has_value()) {
      return std::nullopt;
    }
  }
  const std::string message = event->String({"message"});
  const KnownError& known = FindKnownError(kKubeletErrors, message);
  return Cause{
      .id = known.id,
      .link = FindFailedLink(*event),
      .summary = message,
      .proof = {fmt::format("event {}, {} ago", event->String({"reason"}),
                            api::AgeSince(event->String({"lastTimestamp"}), state.now))},
      .owner = known.owner,
      .step = std::string(known.step),
      .command = fmt::format("berth describe pod {} -n {}", state.pod->name(), state.pod->ns())};
}

}  // namespace berth::cli::explain
