#include "node/pods/pod_status.h"

#include <algorithm>

#include "api/time.h"
#include "node/containers/container_config.h"
#include "node/containers/container_resources.h"

namespace berth::node {

namespace {

using base::Json;
namespace json = base::json;
using Phase = ContainerState::Phase;

// The top-level members of the status that this file writes. If it does not set one of them any
// more, the member is removed.
constexpr const char* kOwned[] = {"phase",
                                  "hostIP",
                                  "hostIPs",
                                  "podIP",
                                  "podIPs",
                                  "reason",
                                  "message",
                                  "qosClass",
                                  "startTime",
                                  "conditions",
                                  "containerStatuses",
                                  "initContainerStatuses",
                                  "ephemeralContainerStatuses"};

constexpr const char* kInit = "initContainerStatuses";
constexpr const char* kEphemeral = "ephemeralContainerStatuses";

Json FormatTimeOrNull(int64_t nanoseconds) {
  if (nanoseconds <= 0) return nullptr;
  return api::FormatTime(base::WallTime(std::chrono::nanoseconds(nanoseconds)));
}

class StatusMaker {
 public:
  explicit StatusMaker(const PodStatusInput& input) : in_(input) {}

  Json Make() {
    Json status = Json::object();
    status["containerStatuses"] = MakeStatuses(in_.pod.containers(), "containerStatuses");
    if (const auto init = in_.pod.init_containers(); !init.empty()) {
      status[kInit] = MakeStatuses(init, kInit);
    }
    if (const auto ephemeral = in_.pod.ephemeral_containers(); !ephemeral.empty()) {
      status[kEphemeral] = MakeStatuses(ephemeral, kEphemeral);
    }
    uninitialized_ = FindUninitialized(status);
    status["phase"] = PhaseOf(status);
    status["qosClass"] = ComputeQosClass(in_.pod);
    if (!in_.ended_reason.empty()) status["reason"] = in_.ended_reason;
    if (!in_.ended_message.empty()) status["message"] = in_.ended_message;
    AddAddresses(status);
    status["conditions"] = MakeConditions(status);
    return status;
  }

 private:
  std::string ContainerId(const ContainerState& state) const {
    return in_.facts.runtime_name + "://" + state.id.text();
  }

  Json MakeTerminated(const ContainerState& state) const {
    Json out = {{"exitCode", state.exit_code}, {"containerID", ContainerId(state)}};
    std::string reason = state.reason;
    if (state.phase == Phase::kUnknown) reason = "ContainerStatusUnknown";
    if (reason.empty()) reason = state.exit_code == 0 ? "Completed" : "Error";
    out["reason"] = reason;
    const auto message = in_.messages.find(state.id);
    const std::string& text =
        message != in_.messages.end() && !message->second.empty() ? message->second : state.message;
    if (!text.empty()) out["message"] = text;
    if (Json time = FormatTimeOrNull(state.started_at); !time.is_null())
      out["startedAt"] = std::move(time);
    if (Json time = FormatTimeOrNull(state.finished_at); !time.is_null())
      out["finishedAt"] = std::move(time);
    return {{"terminated", std::move(out)}};
  }

  // The reason why a container does not run. With `own`, nullopt if there is no reason for this
  // container alone.
  std::optional<WaitingReason> FindWaiting(const std::string& name, bool own) const {
    if (const auto it = in_.waiting.find(name); it != in_.waiting.end()) return it->second;
    if (own) return std::nullopt;
    if (const auto it = in_.waiting.find(""); it != in_.waiting.end()) return it->second;
    const bool has_init = !in_.pod.init_containers().empty();
    return WaitingReason{has_init ? "PodInitializing" : "ContainerCreating", ""};
  }

  static Json MakeWaitingState(const WaitingReason& why) {
    Json out = {{"reason", why.reason}};
    if (!why.message.empty()) out["message"] = why.message;
    return {{"waiting", std::move(out)}};
  }

  // The container's status in the API, which is used if the runtime does not know the container any
  // more; an empty object: none.
  Json FindReported(const std::string& name, std::string_view list) const {
    for (const Json& status : json::Array(in_.pod.json(), {"status", list})) {
      if (json::String(status, {"name"}) == name) return status;
    }
    return Json::object();
  }

  // `list` is the member of the pod's status to which the result goes.
  Json MakeStatus(const api::Container& container, std::string_view list) const {
    const std::string name = container.name();
    const ContainerState* state = in_.runtime.Newest(name);
    const Json reported = FindReported(name, list);
    Json out = {{"name", name},
                {"image", container.image()},
                {"imageID", ""},
                {"ready", false},
                {"restartCount", json::Int(reported, {"restartCount"})},
                {"started", false}};
    Json last = json::Map(reported, {"lastState"});
    if (state == nullptr) {
      const Json* terminated = json::Find(reported, {"state", "terminated"});
      if (terminated != nullptr && !FindWaiting(name, true).has_value()) {
        out["state"] = {{"terminated", *terminated}};
      } else {
        if (terminated != nullptr) last = {{"terminated", *terminated}};
        out["state"] = MakeWaitingState(*FindWaiting(name, false));
      }
      if (const Json* id = json::Find(reported, {"containerID"}); id != nullptr) {
        out["containerID"] = *id;
        out["imageID"] = json::String(reported, {"imageID"});
      }
      out["lastState"] = std::move(last);
      return out;
    }
    out["restartCount"] = state->restart_count;
    out["imageID"] = state->image_id;
    // An ephemeral container with a containerID counts as one that ran, and is not created again.
    // So one that was only created has none.
    const bool ran = state->phase != Phase::kCreated;
    if (list != kEphemeral || ran) out["containerID"] = ContainerId(*state);
    // A container of the pod's present spec gets the image's name from there, because the runtime
    // may know only the image's id.
    const bool same_spec = state->hash.empty() || state->hash == HashContainer(container);
    if (!same_spec && !state->image.empty()) out["image"] = state->image;
    if (const ContainerState* previous = in_.runtime.Previous(name);
        previous != nullptr && previous->exited()) {
      last = MakeTerminated(*previous);
    }
    if (state->running()) {
      out["state"] = {{"running", {{"startedAt", FormatTimeOrNull(state->started_at)}}}};
      const ContainerHealth health = in_.health(state->id);
      out["started"] = health.started;
      out["ready"] = list != kEphemeral && health.started && health.ready;
    } else if (state->exited()) {
      const auto waiting = FindWaiting(name, true);
      if (waiting.has_value()) {
        last = MakeTerminated(*state);
        out["state"] = MakeWaitingState(*waiting);
      } else {
        out["state"] = MakeTerminated(*state);
      }
      if (list == kInit && !IsSidecar(container)) out["ready"] = state->exit_code == 0;
    } else {
      out["state"] = MakeWaitingState(*FindWaiting(name, false));
    }
    out["lastState"] = std::move(last);
    return out;
  }

  Json MakeStatuses(const std::vector<api::Container>& containers, std::string_view list) const {
    Json out = Json::array();
    for (const api::Container& container : containers) out.push_back(MakeStatus(container, list));
    return out;
  }

  // The names of the init containers that have not finished (a sidecar: not started).
  std::vector<std::string> FindUninitialized(const Json& status) const {
    std::vector<std::string> missing;
    // Init containers do not run again after a regular container has run.
    for (const Json& item : status["containerStatuses"]) {
      if (json::Find(item, {"state", "waiting"}) == nullptr || !item["lastState"].empty())
        return {};
    }
    const auto containers = in_.pod.init_containers();
    for (size_t i = 0; i < containers.size(); ++i) {
      const Json& item = status[kInit][i];
      const bool done = IsSidecar(containers[i])
                            ? json::Bool(item, {"started"})
                            : json::Find(item, {"state", "terminated"}) != nullptr &&
                                  json::Int(item, {"state", "terminated", "exitCode"}) == 0;
      if (!done) missing.push_back(containers[i].name());
    }
    return missing;
  }

  std::string PhaseOf(const Json& status) const {
    if (!in_.ended_phase.empty()) return in_.ended_phase;
    int waiting = 0, running = 0, stopped = 0, succeeded = 0;
    for (const Json& item : status["containerStatuses"]) {
      const Json* terminated = json::Find(item, {"state", "terminated"});
      if (terminated == nullptr) terminated = json::Find(item, {"lastState", "terminated"});
      if (json::Find(item, {"state", "running"}) != nullptr) {
        ++running;
      } else if (terminated == nullptr) {
        ++waiting;
      } else {
        ++stopped;
        if (json::Int(*terminated, {"exitCode"}) == 0) ++succeeded;
      }
    }
    const std::string policy = in_.pod.restart_policy();
    if (in_.terminating) {
      if (running > 0) return "Running";
      if (stopped == 0) return in_.pod.phase();  // it never ran
      return waiting == 0 && stopped == succeeded ? "Succeeded" : "Failed";
    }
    if (!uninitialized_.empty() || waiting > 0) return "Pending";
    if (running > 0 || policy == "Always") return "Running";
    if (stopped == succeeded) return "Succeeded";
    return policy == "Never" ? "Failed" : "Running";
  }

  void AddAddresses(Json& status) const {
    if (!in_.facts.host_ip.empty()) {
      status["hostIP"] = in_.facts.host_ip;
      status["hostIPs"] = Json::array({{{"ip", in_.facts.host_ip}}});
    }
    if (in_.facts.pod_ips.empty()) return;
    status["podIP"] = in_.facts.pod_ips[0];
    status["podIPs"] = Json::array();
    for (const std::string& ip : in_.facts.pod_ips) status["podIPs"].push_back({{"ip", ip}});
  }

  static Json MakeCondition(const char* type, bool value, std::string reason, std::string message) {
    Json out = {{"type", type}, {"status", value ? "True" : "False"}};
    if (!reason.empty()) out["reason"] = std::move(reason);
    if (!message.empty()) out["message"] = std::move(message);
    return out;
  }

  static std::string JoinNames(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "" : " ") + name;
    return "[" + out + "]";
  }

  Json MakeConditions(const Json& status) const {
    const std::string phase = json::String(status, {"phase"});
    const bool completed = phase == "Succeeded";
    Json out = Json::array();
    const bool sandbox = std::any_of(in_.runtime.sandboxes.begin(), in_.runtime.sandboxes.end(),
                                     [](const SandboxState& s) { return s.ready; });
    out.push_back(MakeCondition("PodReadyToStartContainers", sandbox, "", ""));
    if (uninitialized_.empty()) {
      out.push_back(MakeCondition("Initialized", true, completed ? "PodCompleted" : "", ""));
    } else {
      out.push_back(
          MakeCondition("Initialized", false, "ContainersNotInitialized",
                        "containers with incomplete status: " + JoinNames(uninitialized_)));
    }
    std::vector<std::string> unready;
    for (const Json& item : status["containerStatuses"]) {
      if (!json::Bool(item, {"ready"})) unready.push_back(json::String(item, {"name"}));
    }
    bool ready = unready.empty();
    std::string reason, message;
    if (completed) {
      reason = "PodCompleted";
    } else if (phase == "Failed") {
      reason = "PodFailed";
    } else if (!ready) {
      reason = "ContainersNotReady";
      message = "containers with unready status: " + JoinNames(unready);
    }
    ready = ready && !completed && phase != "Failed";
    const Json containers_ready = MakeCondition("ContainersReady", ready, reason, message);
    if (ready) {
      if (message = DescribeFailedGate(); !message.empty()) {
        ready = false;
        reason = "ReadinessGatesNotReady";
      }
    }
    out.push_back(MakeCondition("Ready", ready, reason, message));
    out.push_back(containers_ready);
    out.push_back(MakeCondition("PodScheduled", true, "", ""));
    return out;
  }

  // A message about the first readiness gate that is not True; "": all are True.
  std::string DescribeFailedGate() const {
    for (const Json& gate : json::Array(in_.pod.json(), {"spec", "readinessGates"})) {
      const std::string type = json::String(gate, {"conditionType"});
      std::string value;
      for (const Json& condition : json::Array(in_.pod.json(), {"status", "conditions"})) {
        if (json::String(condition, {"type"}) == type) value = json::String(condition, {"status"});
      }
      if (value.empty())
        return fmt::format("corresponding condition of pod readiness gate \"{}\" does not exist.",
                           type);
      if (value != "True") {
        return fmt::format("the status of pod readiness gate \"{}\" is not \"True\", but {}", type,
                           value);
      }
    }
    return "";
  }

  const PodStatusInput& in_;
  std::vector<std::string> uninitialized_;
};

const Json* FindCondition(const Json& conditions, const std::string& type) {
  for (const Json& condition : conditions) {
    if (json::String(condition, {"type"}) == type) return &condition;
  }
  return nullptr;
}

}  // namespace

Json MakePodStatus(const PodStatusInput& input) { return StatusMaker(input).Make(); }

Json MergePodStatus(const Json& present, const Json& wanted, base::WallTime now) {
  Json out = present.is_object() ? present : Json::object();
  const std::string time = api::FormatTime(now);
  for (const char* member : kOwned) {
    const std::string_view name = member;
    if (name == "conditions" || name == "startTime") continue;
    const auto value = wanted.find(member);
    // The last addresses stay after the sandbox is gone, as in the kubelet's status.
    const bool address =
        name == "podIP" || name == "podIPs" || name == "hostIP" || name == "hostIPs";
    if (value != wanted.end()) {
      out[member] = *value;
    } else if (!address) {
      out.erase(member);
    }
  }
  if (json::String(out, {"startTime"}).empty()) out["startTime"] = time;

  const Json before = json::Array(present, {"conditions"});
  Json conditions = Json::array();
  for (const Json& condition : json::Array(wanted, {"conditions"})) {
    const Json* old = FindCondition(before, json::String(condition, {"type"}));
    const bool same =
        old != nullptr && json::String(*old, {"status"}) == json::String(condition, {"status"});
    // The scheduler's own PodScheduled condition stays as it is.
    if (same && json::String(condition, {"type"}) == "PodScheduled") {
      conditions.push_back(*old);
      continue;
    }
    Json added = condition;
    added["lastTransitionTime"] = same ? json::String(*old, {"lastTransitionTime"}, time) : time;
    conditions.push_back(std::move(added));
  }
  for (const Json& old : before) {
    if (FindCondition(conditions, json::String(old, {"type"})) == nullptr)
      conditions.push_back(old);
  }
  out["conditions"] = std::move(conditions);
  return out;
}

Json MakeStatusPatch(const Json& present, const Json& merged) {
  Json out = Json::object();
  for (const auto& [member, value] : merged.items()) {
    const auto old = present.find(member);
    if (old == present.end() || *old != value) out[member] = value;
  }
  for (const auto& [member, value] : present.items()) {
    if (!merged.contains(member)) out[member] = nullptr;
  }
  return out;
}

}  // namespace berth::node
