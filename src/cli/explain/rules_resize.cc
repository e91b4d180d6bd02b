// Rules for a bound claim that asks for another size or other attributes. They do not affect pods
// that use it.
#include "cli/explain/evidence.h"

namespace berth::cli::explain {
namespace {

bool IsBoundClaim(const State& state) {
  return state.object.kind() == "PersistentVolumeClaim" && state.bound();
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
// FAILED_PRECONDITION, and pods use the claim.
bool WaitsForEndOfUse(const State& state, const base::FlightRecord* call,
                      const std::string& error) {
  if (state.claim_pods.empty()) return false;
  return call != nullptr ? call->code == base::StatusCode::kFailedPrecondition
                         : error.find("code = FailedPrecondition") != std::string::npos;
}

}  // namespace

std::optional<Cause> ExpansionInfeasible(const State& state) {
  if (!IsBoundClaim(state)) return std::nullopt;
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
    cause.step =
        "correct the problem that the node names; Berth asks the node again every few minutes";
  } else {
    return std::nullopt;
  }
  std::erase(cause.proof, "");
  cause.command =
      fmt::format("berth describe pvc {} -n {}", state.claim->name(), state.claim->ns());
  return cause;
}

std::optional<Cause> ExpansionFails(const State& state) {
  if (!IsBoundClaim(state) || ExpansionInfeasible(state).has_value()) return std::nullopt;
  const base::FlightRecord* call = FindBadCall(state, ResizeKey(state));
  const std::string error = ReadConditionMessage(*state.claim, "ControllerResizeError");
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
               .proof = {DescribeRequest(state), "the claim's condition ControllerResizeError"},
               .owner = error.starts_with("rpc error") ? Owner::kDriver : Owner::kPerson,
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
  if (status.empty()) return std::nullopt;
  const std::string target =
      state.claim->String({"status", "modifyVolumeStatus", "targetVolumeAttributesClassName"});
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
  cause.owner = error.find("rpc error") != std::string::npos ? Owner::kDriver : Owner::kPerson;
  cause.step = "correct the problem that the message names; Berth tries again by itself";
  return cause;
}

}  // namespace berth::cli::explain
