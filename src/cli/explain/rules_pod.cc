// Rules for containers and for deletions.
#include <algorithm>

#include "api/time.h"
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

struct Waiting {
  std::string container, image, reason, message;
};

std::vector<Waiting> ListWaitingContainers(const api::Pod& pod) {
  std::vector<Waiting> out;
  for (const char* list :
       {"initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"}) {
    for (const base::Json& status : base::json::Array(pod.json(), {"status", list})) {
      if (base::json::Find(status, {"state", "waiting"}) == nullptr) continue;
      out.push_back({.container = base::json::String(status, {"name"}),
                     .image = base::json::String(status, {"image"}),
                     .reason = base::json::String(status, {"state", "waiting", "reason"}),
                     .message = base::json::String(status, {"state", "waiting", "message"})});
    }
  }
  return out;
}

std::vector<std::string> ListNames(const std::vector<api::Pod>& pods) {
  std::vector<std::string> names;
  for (const api::Pod& pod : pods) names.push_back(pod.key());
  return names;
}

// Who removes a finalizer, and what that waits for.
struct Holder {
  Owner owner;
  std::string waits_for;
  std::string step;
  bool foreign = false;  // no part of Berth removes the finalizer
};

// Returns the holder of the finalizer "snapshot.storage.kubernetes.io/NAME"; nullopt: the name is
// not known.
std::optional<Holder> FindSnapshotHolder(const State& state, std::string_view name) {
  const std::string content = state.content ? state.content->name() : "";
  if (name == "pvc-as-source-protection") {
    return Holder{
        Owner::kController, "snapshots of the claim that are being taken",
        "wait until those snapshots are ready, or delete them: 'berth get volumesnapshots'"};
  }
  if (name == "volumesnapshotcontent-bound-protection") {
    if (state.content && state.content->has_annotation(
                             "snapshot.storage.kubernetes.io/volumesnapshot-being-created")) {
      return Holder{
          Owner::kController, "a CreateSnapshot whose outcome is not known yet",
          "check that the driver answers; otherwise a snapshot may remain in the storage that "
          "no object names"};
    }
    if (state.content && !state.content->has_annotation(
                             "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted")) {
      return Holder{Owner::kPerson,
                    fmt::format("VolumeSnapshot '{}', which is bound to it and not deleted",
                                state.content->snapshot_key()),
                    "delete the VolumeSnapshot, if nobody needs its data"};
    }
    return Holder{
        Owner::kController, "the snapshotter's DeleteSnapshot",
        "check that the driver's controllers run; if you remove the finalizer by hand, the "
        "snapshot may remain in the storage"};
  }
  if (name.starts_with("volumesnapshot-")) {
    if (state.content) {
      return Holder{
          Owner::kController, fmt::format("VolumeSnapshotContent '{}' to be gone", content),
          fmt::format("'berth explain volumesnapshotcontent/{}' says what holds it", content)};
    }
    return Holder{Owner::kController,
                  "the snapshot controller, which removes it once there is no content",
                  "check that 'berth up' runs, and read its log"};
  }
  return std::nullopt;
}

Holder FindHolder(const State& state, const std::string& finalizer) {
  constexpr std::string_view kSnapshots = "snapshot.storage.kubernetes.io/";
  if (finalizer.starts_with(kSnapshots)) {
    const auto holder = FindSnapshotHolder(state, finalizer.substr(kSnapshots.size()));
    if (holder.has_value()) return *holder;
  }
  if (finalizer == "kubernetes.io/pvc-protection") {
    const std::vector<std::string> pods = ListNames(state.claim_pods);
    if (!pods.empty()) {
      return {Owner::kPerson, fmt::format("pods that use the claim: {}", fmt::join(pods, ", ")),
              "end those pods; the claim is then deleted"};
    }
    return {Owner::kController,
            "the protection controller, which removes it once no pod uses the claim",
            "check that 'berth up' runs, and read its log"};
  }
  if (finalizer == "kubernetes.io/pv-protection") {
    if (state.claim) {
      return {Owner::kPerson, fmt::format("claim '{}', which is bound to it", state.claim_key),
              "delete the claim first, if nobody needs the data"};
    }
    return {Owner::kController,
            "the protection controller, which removes it once the volume is unbound",
            "check that 'berth up' runs, and read its log"};
  }
  if (finalizer.starts_with("external-provisioner.volume.kubernetes.io")) {
    return {Owner::kController, "the provisioner's DeleteVolume",
            "check that the driver's controllers run; they delete the volume's data before this "
            "object"};
  }
  if (finalizer.starts_with("external-attacher/")) {
    return {
        Owner::kController, "the attacher's ControllerUnpublishVolume",
        "check that the driver's controllers run; if you remove the finalizer by hand, the volume "
        "may stay attached"};
  }
  constexpr std::string_view kOfProvisioner = "provisioner.storage.kubernetes.io/";
  if (finalizer.starts_with(kOfProvisioner)) {
    if (!state.restoring.empty()) {
      return {
          Owner::kPerson,
          fmt::format("claims that are to be filled from it: {}", fmt::join(state.restoring, ", ")),
          "wait until those claims are bound (a class may wait for a pod that uses them), or "
          "delete them; it is then deleted"};
    }
    return {Owner::kController,
            "the provisioner, which removes it once no volume is filled from it",
            "check that the driver's controllers run"};
  }
  if (finalizer == "storage.berth.dev/provisioning") {
    return {Owner::kController, "the making of its volume, whose outcome is not known yet",
            "check that the block operator runs and reaches its storage, and for another driver "
            "that its provisioner runs; otherwise a volume may remain in the storage that no "
            "object names"};
  }
  if (finalizer == "storage.berth.dev/host-mount") {
    return {Owner::kNodeAgent, fmt::format("the node agent of '{}' to unmount it", state.node_name),
            "check that this node agent runs, and read its log"};
  }
  if (finalizer == "foregroundDeletion") {
    return {Owner::kController, "the garbage collector, which deletes its dependents first",
            "find out which dependents still exist, and why they are not deleted"};
  }
  if (finalizer == "orphan") {
    return {Owner::kController,
            "the garbage collector, which removes it from its dependents' owner references first",
            "check that 'berth up' runs, and read its log"};
  }
  return {Owner::kPerson,
          fmt::format("the program that set '{}', which is no part of Berth", finalizer),
          "find the program that set it, and let it finish. Only if that program exists no longer, "
          "remove the finalizer by hand",
          /*foreign=*/true};
}

}  // namespace

std::optional<Cause> ImageMissing(const State& state) {
  if (!state.pod || state.pod->deleting()) return std::nullopt;
  for (const Waiting& waiting : ListWaitingContainers(*state.pod)) {
    if (!IsImageReason(waiting.reason)) continue;
    Cause cause{.id = "image-missing",
                .link = Link::kContainers,
                .summary = fmt::format("image '{}' of container '{}' is not available",
                                       waiting.image, waiting.container),
                .proof = {fmt::format("{}: {}", waiting.reason, waiting.message)},
                .owner = Owner::kPerson,
                .step =
                    "correct the image's name, give the runtime access to its registry, or "
                    "import it",
                .command = fmt::format("ctr -n k8s.io images ls | grep {}", waiting.image)};
    return cause;
  }
  return std::nullopt;
}

std::optional<Cause> ContainerFails(const State& state) {
  if (!state.pod || state.pod->deleting() || state.pod->terminated()) return std::nullopt;
  if (NoRuntime(state).has_value() || ConfigMissing(state).has_value()) return std::nullopt;
  for (const Waiting& waiting : ListWaitingContainers(*state.pod)) {
    if (IsImageReason(waiting.reason) || waiting.reason == "ContainerCreating" ||
        waiting.reason == "PodInitializing") {
      continue;
    }
    if (waiting.reason == "CreateContainerConfigError" ||
        waiting.reason == "CreateContainerError") {
      return Cause{.id = "container-config",
                   .link = Link::kContainers,
                   .summary = fmt::format("container '{}' cannot be made: {}", waiting.container,
                                          waiting.message),
                   .proof = {fmt::format("{}; it has not run", waiting.reason)},
                   .owner = Owner::kPerson,
                   .step = "correct in the pod, or in its volume, what the message names",
                   .command = fmt::format("berth get pod {} -n {} -o yaml", state.pod->name(),
                                          state.pod->ns())};
    }
    return Cause{.id = "container-fails",
                 .link = Link::kContainers,
                 .summary = fmt::format("container '{}' does not run: {}", waiting.container,
                                        waiting.reason),
                 .proof = {waiting.message.empty() ? waiting.reason : waiting.message},
                 .owner = Owner::kPerson,
                 .step = "read what the container wrote; its volumes are mounted",
                 .command = fmt::format("berth logs {} -n {} -c {} -p", state.pod->name(),
                                        state.pod->ns(), waiting.container)};
  }
  const api::Event* sandbox = FindEvent(state, "Pod", "FailedCreatePodSandBox");
  if (sandbox == nullptr || state.pod->phase() != "Pending") return std::nullopt;
  return Cause{.id = "sandbox-fails",
               .link = Link::kContainers,
               .summary = "the container runtime cannot make the pod's sandbox",
               .proof = {sandbox->String({"message"})},
               .owner = Owner::kPerson,
               .step = "run 'berth doctor', which checks the runtime and its network",
               .command = "berth doctor"};
}

std::optional<Cause> ContainerEnded(const State& state) {
  if (!state.pod || state.pod->deleting() || state.pod->phase() != "Failed") return std::nullopt;
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    for (const base::Json& status : base::json::Array(state.pod->json(), {"status", list})) {
      const base::Json* ended = base::json::Find(status, {"state", "terminated"});
      if (ended == nullptr || base::json::Int(*ended, {"exitCode"}, 0) == 0) continue;
      const std::string name = base::json::String(status, {"name"});
      const std::string message = base::json::String(*ended, {"message"});
      return Cause{
          .id = "container-ended",
          .link = Link::kContainers,
          .summary = fmt::format("container '{}' ended with an error", name),
          .proof = {fmt::format("{}, exit code {}{}{}", base::json::String(*ended, {"reason"}),
                                base::json::Int(*ended, {"exitCode"}, 0),
                                message.empty() ? "" : ": ", message)},
          .owner = Owner::kPerson,
          .step = "read what the container wrote; this pod does not start again",
          .command =
              fmt::format("berth logs {} -n {} -c {}", state.pod->name(), state.pod->ns(), name)};
    }
  }
  return std::nullopt;
}

// The containers run, and their readiness probe fails.
std::optional<Cause> NotReady(const State& state) {
  if (!state.pod || state.pod->deleting() || state.pod->phase() != "Running") return std::nullopt;
  const base::Json* ready = state.pod->condition("Ready");
  if (ready == nullptr || base::json::String(*ready, {"status"}) != "False" ||
      base::json::String(*ready, {"reason"}) != "ContainersNotReady") {
    return std::nullopt;
  }
  constexpr std::chrono::minutes kStillTrue{10};
  const api::Event* event = FindEvent(state, "Pod", "Unhealthy");
  if (event == nullptr || !IsRecent(state, *event, kStillTrue) ||
      !ListWaitingContainers(*state.pod).empty()) {
    return std::nullopt;
  }
  // A container that has just started may not be ready yet.
  constexpr std::chrono::minutes kStartsWithin{1};
  const auto created = api::ParseTime(state.pod->creation_timestamp());
  return Cause{
      .id = "not-ready",
      .link = Link::kContainers,
      .waiting = created.ok() && state.now - *created < kStartsWithin,
      .summary = fmt::format("the pod runs, and is not ready: {}", event->String({"message"})),
      .proof = {fmt::format("event Unhealthy, {} ago",
                            api::AgeSince(event->String({"lastTimestamp"}), state.now))},
      .owner = Owner::kPerson,
      .step = "find out why the probe fails; the pod's volumes are mounted",
      .command = fmt::format("berth logs {} -n {}", state.pod->name(), state.pod->ns())};
}

// The deletion of the subject waits for a call that fails.
std::optional<Cause> DeletionFails(const State& state) {
  const bool goes = state.object.deleting();
  if (state.object.kind() == "PersistentVolume" && (goes || state.volume->phase() == "Released")) {
    if (const base::FlightRecord* call = FindBadCall(state, DeleteKey(state))) {
      return ExplainCall(state, Link::kDeletion, *call);
    }
  }
  if (state.object.kind() == "VolumeAttachment" && goes) {
    if (const base::FlightRecord* call = FindBadCall(state, AttachKey(state.object.name()))) {
      return ExplainCall(state, Link::kDeletion, *call);
    }
    const std::string error = api::VolumeAttachment(state.object.json()).detach_error();
    if (error.empty()) return std::nullopt;
    return ExplainAttachment(state, Link::kDeletion, "detach", "detaching fails", error);
  }
  return std::nullopt;
}

std::optional<Cause> FinalizerLeft(const State& state) {
  if (!state.object.deleting()) return std::nullopt;
  const std::vector<std::string> finalizers = state.object.finalizers();
  if (finalizers.empty()) return std::nullopt;
  // A finalizer that no part of Berth removes blocks for ever, so it is named first. Then comes one
  // that waits for a person, because the others may wait for that.
  const auto rank = [&state](const std::string& candidate) {
    const Holder holder = FindHolder(state, candidate);
    return holder.foreign ? 0 : holder.owner == Owner::kPerson ? 1 : 2;
  };
  const std::string finalizer = *std::ranges::min_element(finalizers, {}, rank);
  const Holder holder = FindHolder(state, finalizer);
  Cause cause{
      .id = "finalizer-left",
      .link = Link::kDeletion,
      .summary = fmt::format("{} is deleted but kept by finalizer '{}'", state.subject, finalizer),
      .proof = {fmt::format("finalizers: {}; deleted at {}", fmt::join(finalizers, ", "),
                            state.object.String({"metadata", "deletionTimestamp"})),
                fmt::format("it waits for {}", holder.waits_for)},
      .owner = holder.owner,
      .step = holder.step};
  if (holder.foreign) {
    const std::string ns =
        state.object.ns().empty() ? "" : fmt::format(" -n {}", state.object.ns());
    cause.command =
        fmt::format("kubectl get {}{} -o yaml --show-managed-fields", state.subject, ns);
  }
  return cause;
}

}  // namespace berth::cli::explain
