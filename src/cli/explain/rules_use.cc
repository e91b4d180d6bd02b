// Rules for how a pod uses what it names: its claims, its scheduler, its Secrets and ConfigMaps.
#include <algorithm>

#include "api/time.h"
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

// The scheduler has looked at a pod within that time if it runs.
constexpr std::chrono::seconds kSchedulerAnswers{10};

std::vector<api::Container> ListContainers(const api::Pod& pod) {
  std::vector<api::Container> out = pod.init_containers();
  for (const auto& more : {pod.containers(), pod.ephemeral_containers()}) {
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

// Returns the container that names the volume in volumeDevices, or in volumeMounts; empty: none.
std::string FindUser(const api::Pod& pod, const std::string& volume, bool as_device) {
  for (const api::Container& container : ListContainers(pod)) {
    for (const auto& [name, path] : container.volume_devices()) {
      if (as_device && name == volume) return container.name();
    }
    for (const api::VolumeMount& mount : container.volume_mounts()) {
      if (!as_device && mount.name() == volume) return container.name();
    }
  }
  return "";
}

// What a message says that names an object which does not exist, or lacks a key:
// `configmap "a" not found`, "references non-existent config key: a", "couldn't find key a in
// Secret".
struct MissingObject {
  std::string kind;  // "secret" or "configmap"
  std::string name;  // empty: a key of it is missing, which the message names
};

std::optional<MissingObject> ParseMissing(std::string_view message) {
  constexpr std::string_view kGone = "\" not found";
  for (const std::string_view kind : {"secret", "configmap"}) {
    const std::string begin = fmt::format("{} \"", kind);
    const size_t at = message.find(begin);
    if (at == std::string_view::npos) continue;
    const size_t name = at + begin.size();
    const size_t end = message.find(kGone, name);
    if (end == std::string_view::npos) continue;
    return MissingObject{std::string(kind), std::string(message.substr(name, end - name))};
  }
  const auto says = [&](std::string_view text) {
    return message.find(text) != std::string_view::npos;
  };
  if (says("references non-existent config key") || says("couldn't find key")) {
    const bool secret = says("secret ") || says("Secret ");
    return MissingObject{secret ? "secret" : "configmap", ""};
  }
  return std::nullopt;
}

struct Reason {
  Link link;
  std::string text;
};

// The reasons why the pod waits that may name an object: of its containers, and of its volumes.
std::vector<Reason> ListReasons(const State& state) {
  std::vector<Reason> out;
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    for (const base::Json& status : base::json::Array(state.pod->json(), {"status", list})) {
      out.push_back(
          {Link::kContainers, base::json::String(status, {"state", "waiting", "message"})});
    }
  }
  if (const api::Event* event = FindMountEvent(state)) {
    out.push_back({Link::kPublish, event->String({"message"})});
  }
  return out;
}

}  // namespace

std::optional<Cause> ClaimBeingDeleted(const State& state) {
  if (!state.claim || !state.claim->deleting() || !state.wants_mount() || IsReady(state) ||
      state.object.deleting() || state.object.kind() == "PersistentVolumeClaim") {
    return std::nullopt;
  }
  return Cause{
      .id = "claim-deleted",
      .link = Link::kClaim,
      .summary = fmt::format("claim '{}' is being deleted, so no new pod gets its volume",
                             state.claim_key),
      .proof = {fmt::format("it is deleted since {}",
                            state.claim->String({"metadata", "deletionTimestamp"}))},
      .owner = Owner::kPerson,
      .step =
          "create the pod again with another claim, or delete it: the claim goes when no pod "
          "uses it",
      .command = fmt::format("berth explain pvc/{} -n {}", state.claim->name(), state.claim->ns())};
}

std::optional<Cause> WrongVolumeMode(const State& state) {
  if (!state.pod || !state.claim || state.pod->terminated() || state.pod->deleting()) {
    return std::nullopt;
  }
  const bool block = state.claim->volume_mode() == "Block";
  const std::string user = FindUser(*state.pod, state.volume_name, !block);
  if (user.empty()) return std::nullopt;
  const std::string_view used = block ? "volumeMounts" : "volumeDevices";
  const std::string_view right = block ? "volumeDevices" : "volumeMounts";
  return Cause{
      .id = "wrong-volume-mode",
      .link = Link::kClaim,
      .summary = fmt::format("container '{}' names volume '{}' in {}, but claim '{}' is for {}",
                             user, state.volume_name, used, state.claim_key,
                             block ? "a raw block device" : "a file system"),
      .proof = {fmt::format("volumeMode of claim '{}' is {}", state.claim_key,
                            state.claim->volume_mode())},
      .owner = Owner::kPerson,
      .step = fmt::format("create the pod again with the volume in {}, or with a claim "
                          "whose volumeMode is {}",
                          right, block ? "Filesystem" : "Block"),
      .command = fmt::format("berth get pod {} -n {} -o yaml", state.pod->name(), state.pod->ns())};
}

std::optional<Cause> NoScheduler(const State& state) {
  if (!state.pod || !state.pod->node_name().empty() || state.pod->terminated()) {
    return std::nullopt;
  }
  const std::string name = state.pod->scheduler_name();
  if (name == "default-scheduler" || state.pod->condition("PodScheduled") != nullptr) {
    return std::nullopt;
  }
  const auto created = api::ParseTime(state.pod->creation_timestamp());
  return Cause{
      .id = "no-scheduler",
      .link = Link::kNode,
      .waiting = created.ok() && state.now - *created < kSchedulerAnswers,
      .summary = fmt::format("the pod asks for scheduler '{}', which has not looked at it", name),
      .proof = {fmt::format("spec.schedulerName is '{}'; the pod was created {} ago and has no "
                            "condition PodScheduled",
                            name, api::AgeSince(state.pod->creation_timestamp(), state.now))},
      .owner = Owner::kPerson,
      .step =
          "start that scheduler, or create the pod again without schedulerName: the "
          "default-scheduler then chooses its node"};
}

std::optional<Cause> ConfigMissing(const State& state) {
  if (!state.pod || state.pod->deleting() || state.pod->terminated()) return std::nullopt;
  for (const auto& [link, reason] : ListReasons(state)) {
    const std::optional<MissingObject> missing = ParseMissing(reason);
    if (!missing.has_value()) continue;
    return Cause{.id = missing->kind == "secret" ? "secret-missing" : "configmap-missing",
                 .link = link,
                 .summary = missing->name.empty()
                                ? fmt::format("a {} lacks a key that the pod names: {}",
                                              missing->kind, reason)
                                : fmt::format("{} '{}/{}', which the pod names, does not exist",
                                              missing->kind, state.pod->ns(), missing->name),
                 .proof = {reason},
                 .owner = Owner::kPerson,
                 .step =
                     "create it: the pod then starts by itself; or create the pod again "
                     "without it, or with 'optional: true'",
                 .command = fmt::format("berth get {}s -n {}", missing->kind, state.pod->ns())};
  }
  return std::nullopt;
}

}  // namespace berth::cli::explain
