// Rules for a node whose pods a kubelet runs. It keeps no flight record, so what it waits for shows
// at the sockets where it asks, if it runs on this machine, and in its events.
#include <algorithm>

#include "api/time.h"
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

// Whether the node has work to do for the volumes: to set them up, or to take them down.
bool NodeHasWork(const State& state) {
  if (!state.pod || state.pod->terminated() || state.pod->node_name().empty()) return false;
  return state.object.deleting() || !IsReady(state);
}

// An error of an operation of the kubelet. It is recognised if its message contains `says`.
struct KnownError {
  std::string_view says, id;
  Owner owner;
  std::string_view step;
};

const KnownError& FindKnownError(const std::string& message) {
  static constexpr KnownError kKnown[] = {
      {"access denied by server", "access-denied", Owner::kPerson,
       "let the server's export allow this node's address and what the pod's mount options ask "
       "for; "
       "the kubelet tries again by itself"},
      {"failed to find the secret", "secret-missing", Owner::kPerson,
       "create the secret that the volume names; the kubelet tries again by itself"},
      {"fetching NodeStageSecretRef", "secret-missing", Owner::kPerson,
       "create the secret that the volume names, in the namespace that it names; the kubelet tries "
       "again by itself"},
      {"fetching NodePublishSecretRef", "secret-missing", Owner::kPerson,
       "create the secret that the volume names, in the namespace that it names; the kubelet tries "
       "again by itself"},
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
  return *std::ranges::find_if(kKnown, [&](const KnownError& known) {
    return message.find(known.says) != std::string::npos;
  });
}

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

// Returns the cause if nobody serves the socket, or if a signal has stopped who does.
std::optional<Cause> ExplainSilence(const State& state, const std::string& socket,
                                    const std::string& who, std::string_view id) {
  const auto server = state.servers.find(socket);
  if (server == state.servers.end()) return std::nullopt;
  Cause cause{.link = state.object.deleting() ? Link::kDeletion : Link::kStage};
  if (const platform::ProcessInfo* stopped = FindStoppedServer(state, socket)) {
    cause.id = id;
    cause.summary = fmt::format("{} answers nothing on node '{}'", who, state.node_name);
    AddStoppedProcess(*stopped, cause);
    cause.proof.push_back(fmt::format("it serves '{}'", socket));
  } else if (server->second.listening.code() == base::StatusCode::kUnavailable) {
    cause.id = "driver-absent";
    cause.summary = fmt::format("no process serves {} on node '{}'", who, state.node_name);
    cause.proof.emplace_back(base::Message(server->second.listening));
    cause.owner = Owner::kDriver;
    cause.step =
        "start it on that node, or find out why it ends; the kubelet tries again by itself";
  } else {
    return std::nullopt;
  }
  AddMountEvent(state, cause);
  return cause;
}

}  // namespace

std::optional<Cause> NodeDriverSilent(const State& state) {
  if (!NodeHasWork(state) || !state.bound()) return std::nullopt;
  for (const std::string& socket : state.driver_sockets) {
    auto cause =
        ExplainSilence(state, socket, fmt::format("the driver '{}'", state.driver), "driver-hung");
    if (cause.has_value()) return cause;
  }
  return std::nullopt;
}

std::optional<Cause> BlockAgentSilent(const State& state) {
  if (!NodeHasWork(state)) return std::nullopt;
  for (const std::string& socket : state.agent_sockets) {
    auto cause = ExplainSilence(state, socket, "the block agent", "block-agent-hung");
    if (!cause.has_value()) continue;
    cause->owner = Owner::kNodeAgent;
    if (cause->id == "driver-absent") cause->id = "block-agent-absent";
    return cause;
  }
  return std::nullopt;
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
  const KnownError& known = FindKnownError(message);
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
