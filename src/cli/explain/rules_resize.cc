// Rules for a bound claim that asks for another size or other attributes. A pod that uses the claim
// runs meanwhile, but what a person asked for fails, so a failure is a cause for the pod, too.
#include "api/time.h"
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

bool IsBoundClaim(const State& state) {
  return state.object.kind() == "PersistentVolumeClaim" && state.bound();
}

// Whether the subject is the claim, or a pod that uses it.
bool ConcernsClaim(const State& state) {
  return IsBoundClaim(state) || (state.pod && state.bound() && !state.pod->terminated());
}

// Returns the newest event that the volume could not be grown: of the resizer about the claim, or
// of the kubelet about the pod or the claim. Null if there is none.
const api::Event* FindResizeEvent(const State& state, bool of_node) {
  const api::Event* newest = nullptr;
  for (const char* kind : {"Pod", "PersistentVolumeClaim"}) {
    for (const char* reason : {"VolumeResizeFailed", "FileSystemResizeFailed"}) {
      const api::Event* event = FindEvent(state, kind, reason);
      if (event == nullptr) continue;
      const bool by_node = event->String({"source", "component"}) == "kubelet" ||
                           event->String({"reportingComponent"}) == "kubelet";
      if (by_node != of_node) continue;
      if (newest == nullptr ||
          newest->String({"lastTimestamp"}) <= event->String({"lastTimestamp"})) {
        newest = event;
      }
    }
  }
  return newest;
}

// The driver's own error says "rpc error", whoever repeats it.
Owner OwnerOf(const std::string& error) {
  return error.find("rpc error") != std::string::npos ? Owner::kDriver : Owner::kPerson;
}

std::string ReadConditionMessage(const api::PersistentVolumeClaim& claim, std::string_view type) {
  for (const base::Json& condition : claim.conditions()) {
    if (base::json::String(condition, {"type"}) == type) {
      return base::json::String(condition, {"message"});
    }
  }
  return "";
}

std::string DescribeRequest(const State& state) {
  return fmt::format("claim '{}' asks for {} and has {}", state.claim_key,
                     state.claim->requested_storage(), state.claim->capacity());
}

// Whether the driver does not grow the volume because it is in use: it answered
// FAILED_PRECONDITION, or is not even called any more, and pods use the claim.
bool WaitsForEndOfUse(const State& state, const base::FlightRecord* call,
                      const std::string& error) {
  if (state.claim_pods.empty()) return false;
  if (call != nullptr) return call->code == base::StatusCode::kFailedPrecondition;
  return error.find("code = FailedPrecondition") != std::string::npos ||
         error.find("only supports offline expansion") != std::string::npos;
}

}  // namespace

std::optional<Cause> ExpansionInfeasible(const State& state) {
  if (!ConcernsClaim(state)) return std::nullopt;
  const std::string status = state.claim->resize_status();
  Cause cause{
      .id = "expansion-infeasible", .link = Link::kVolume, .proof = {DescribeRequest(state)}};
  if (status == "ControllerResizeInfeasible") {
    cause.summary =
        fmt::format("the driver '{}' cannot make volume '{}' as large as {}", state.driver,
                    state.volume->name(), state.claim->allocated_storage());
    cause.proof.push_back(ReadConditionMessage(*state.claim, "ControllerResizeError"));
    cause.step =
        "request less (but more than the claim has now), or free space behind the driver; Berth "
        "tries again every few minutes";
  } else if (status == "NodeResizeInfeasible") {
    cause.summary = fmt::format("the node cannot grow the file system of volume '{}' to {}",
                                state.volume->name(), state.claim->allocated_storage());
    cause.proof.push_back(ReadConditionMessage(*state.claim, "NodeResizeError"));
    cause.step = "correct the problem that the node names; Berth asks the node again by itself";
  } else {
    return std::nullopt;
  }
  std::erase(cause.proof, "");
  cause.command =
      fmt::format("berth describe pvc {} -n {}", state.claim->name(), state.claim->ns());
  return cause;
}

std::optional<Cause> ExpansionFails(const State& state) {
  if (!ConcernsClaim(state) || ExpansionInfeasible(state).has_value()) return std::nullopt;
  const base::FlightRecord* call = FindBadCall(state, ResizeKey(state));
  const bool of_node = state.claim->resize_status().starts_with("Node");
  const std::string_view condition = of_node ? "NodeResizeError" : "ControllerResizeError";
  std::string error = ReadConditionMessage(*state.claim, condition);
  std::string proof = fmt::format("the claim's condition {}", condition);
  if (const api::Event* event = FindResizeEvent(state, of_node);
      error.empty() && event != nullptr && AsksForMore(*state.claim)) {
    error = event->String({"message"});
    proof = fmt::format("event {}, {} ago", event->String({"reason"}),
                        api::AgeSince(event->String({"lastTimestamp"}), state.now));
  }
  if (WaitsForEndOfUse(state, call, error)) {
    const api::Pod& pod = state.claim_pods.front();
    return Cause{.id = "expansion-waits-for-end-of-use",
                 .link = Link::kVolume,
                 .waiting = true,
                 .summary = fmt::format("the driver '{}' does not grow a volume that is in use",
                                        state.driver),
                 .proof = {call != nullptr ? DescribeRecord(state, *call) : error,
                           fmt::format("pod '{}' uses claim '{}'", pod.key(), state.claim_key)},
                 .owner = Owner::kPerson,
                 .step = "end the pods that use the claim; it grows as soon as they are gone",
                 .command = fmt::format("berth delete pod {} -n {}", pod.name(), pod.ns())};
  }
  if (call != nullptr) return ExplainCall(state, Link::kVolume, *call);
  // There is no record, because it is on another machine, or the resizer gave up before any call.
  if (error.empty()) return std::nullopt;
  const bool secret = error.find("read secret") != std::string::npos;
  return Cause{.id = secret ? "secret-missing" : "expansion-fails",
               .link = Link::kVolume,
               .summary = fmt::format("volume '{}' does not grow: {}", state.volume->name(), error),
               .proof = {DescribeRequest(state), std::move(proof)},
               .owner = OwnerOf(error),
               .step = "correct the problem that the message names; Berth tries again by itself"};
}

std::optional<Cause> ExpansionWaitsForNode(const State& state) {
  if (!IsBoundClaim(state) || !state.claim_pods.empty()) return std::nullopt;
  if (state.claim->resize_status() != "NodeResizePending") return std::nullopt;
  return Cause{.id = "expansion-waits-for-node",
               .link = Link::kVolume,
               .waiting = true,
               .summary = fmt::format("the file system of volume '{}' grows when it is used next",
                                      state.volume->name()),
               .proof = {DescribeRequest(state),
                         fmt::format("volume '{}' has {}, and no pod uses the claim",
                                     state.volume->name(), state.volume->capacity())},
               .owner = Owner::kPerson,
               .step = "start a pod that uses the claim"};
}

std::optional<Cause> ModificationFails(const State& state) {
  if (!IsBoundClaim(state)) return std::nullopt;
  const std::string status = state.claim->String({"status", "modifyVolumeStatus", "status"});
  const std::string wish = state.claim->volume_attributes_class_name();
  // A claim that asks for no class any more keeps its status if no modification is in progress.
  if (status.empty() || (wish.empty() && status != "InProgress")) return std::nullopt;
  const std::string target = status == "Pending"
                                 ? wish
                                 : state.claim->String({"status", "modifyVolumeStatus",
                                                        "targetVolumeAttributesClassName"});
  const std::string error = ReadConditionMessage(*state.claim, "ModifyVolumeError");
  Cause cause{.link = Link::kVolume,
              .proof = {fmt::format("claim '{}' changes to class '{}', with status {}",
                                    state.claim_key, target, status)}};
  if (!error.empty()) cause.proof.push_back(error);
  const std::string current = state.claim->String({"status", "currentVolumeAttributesClassName"});
  if (status == "Pending") {
    cause.id = "no-attributes-class";
    cause.summary = fmt::format("VolumeAttributesClass '{}' does not exist", target);
    cause.step = "create the class, or set the claim's class to one that exists";
    cause.command = "berth get volumeattributesclasses";
    return cause;
  }
  if (status == "Infeasible") {
    cause.id = "modification-infeasible";
    cause.summary =
        fmt::format("the driver '{}' cannot give volume '{}' the attributes of class '{}'",
                    state.driver, state.volume->name(), target);
    cause.step =
        current.empty()
            ? "set the claim's class to another one; Berth tries this one again every few minutes"
            : fmt::format("set the claim's class to another one, or back to '{}', which it has now",
                          current);
    return cause;
  }
  if (const base::FlightRecord* call = FindBadCall(state, ModifyKey(state))) {
    return ExplainCall(state, Link::kVolume, *call);
  }
  if (error.empty()) return std::nullopt;
  cause.id = "modification-fails";
  cause.summary = fmt::format("volume '{}' is not modified: {}", state.volume->name(), error);
  cause.owner = OwnerOf(error);
  cause.step = "correct the problem that the message names; Berth tries again by itself";
  return cause;
}

}  // namespace berth::cli::explain
