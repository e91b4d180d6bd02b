// Columns: Pod, and the kinds that create pods.

#include "api/names.h"
#include "api/time.h"
#include "apiserver/documents/table_columns.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::Bool;
using base::json::Find;
using base::json::Int;
using base::json::Map;
using base::json::String;

namespace {

bool HasCondition(const Json& pod, std::string_view type) {
  for (const Json& condition : Array(pod, {"status", "conditions"})) {
    if (String(condition, {"type"}) == type) return String(condition, {"status"}) == "True";
  }
  return false;
}

// Why a container does not run, from its state; empty if it runs or has no state.
std::string ReasonNotRunning(const Json& status) {
  if (const std::string reason = String(status, {"state", "waiting", "reason"}); !reason.empty()) {
    return reason;
  }
  if (Find(status, {"state", "terminated"}) == nullptr) return {};
  if (const std::string reason = String(status, {"state", "terminated", "reason"});
      !reason.empty()) {
    return reason;
  }
  const int64_t signal = Int(status, {"state", "terminated", "signal"});
  return signal != 0 ? fmt::format("Signal:{}", signal)
                     : fmt::format("ExitCode:{}", Int(status, {"state", "terminated", "exitCode"}));
}

// Summarises the states of a pod's containers, as `kubectl get pods` shows them.
class Summary {
 public:
  explicit Summary(const Json& pod)
      : pod_(pod), containers_(Array(pod, {"spec", "containers"}).size()) {
    for (const Json& init : Array(pod, {"spec", "initContainers"})) {
      if (String(init, {"restartPolicy"}) != "Always") continue;
      sidecars_.push_back(String(init, {"name"}));
      ++containers_;
    }
    status_ = TextOr(String(pod, {"status", "reason"}), String(pod, {"status", "phase"}));
    for (const Json& condition : Array(pod, {"status", "conditions"})) {
      if (String(condition, {"type"}) == "PodScheduled" &&
          String(condition, {"reason"}) == "SchedulingGated") {
        status_ = "SchedulingGated";
      }
    }
    const bool initializing = ReadInitContainers();
    if (!initializing || HasCondition(pod, "Initialized")) ReadContainers();
    if (Find(pod, {"metadata", "deletionTimestamp"}) == nullptr) return;
    const std::string phase = String(pod, {"status", "phase"});
    if (String(pod, {"status", "reason"}) == "NodeLost") {
      status_ = "Unknown";
    } else if (phase != "Succeeded" && phase != "Failed") {
      status_ = "Terminating";
    }
  }

  const std::string& status() const { return status_; }
  std::string ready() const { return fmt::format("{}/{}", ready_, containers_); }
  // "3 (5m ago)"
  std::string restarts(base::WallTime now) const {
    return restarts_ == 0 || last_restart_.empty()
               ? std::to_string(restarts_)
               : fmt::format("{} ({} ago)", restarts_, api::AgeSince(last_restart_, now));
  }

 private:
  void CountRestarts(const Json& status) {
    restarts_ += Int(status, {"restartCount"});
    // The times can be compared as texts, because they have the same format.
    last_restart_ =
        std::max(last_restart_, String(status, {"lastState", "terminated", "finishedAt"}));
  }

  // True while the init containers have not finished; the other containers do not count until then.
  bool ReadInitContainers() {
    int64_t sidecar_restarts = 0;
    std::string last_sidecar_restart;
    const size_t all = Array(pod_, {"spec", "initContainers"}).size();
    size_t i = 0;
    for (const Json& init : Array(pod_, {"status", "initContainerStatuses"})) {
      const size_t at = i++;
      CountRestarts(init);
      const bool sidecar =
          std::find(sidecars_.begin(), sidecars_.end(), String(init, {"name"})) != sidecars_.end();
      if (sidecar) {
        sidecar_restarts += Int(init, {"restartCount"});
        last_sidecar_restart =
            std::max(last_sidecar_restart, String(init, {"lastState", "terminated", "finishedAt"}));
      }
      const bool ended = Find(init, {"state", "terminated"}) != nullptr;
      if (ended && Int(init, {"state", "terminated", "exitCode"}, -1) == 0) continue;
      if (sidecar && Bool(init, {"started"})) {
        if (Bool(init, {"ready"})) ++ready_;
        continue;
      }
      const std::string reason = ReasonNotRunning(init);
      status_ = reason.empty() || reason == "PodInitializing" ? fmt::format("Init:{}/{}", at, all)
                                                              : fmt::format("Init:{}", reason);
      return true;
    }
    restarts_ = sidecar_restarts;
    last_restart_ = last_sidecar_restart;
    return false;
  }

  void ReadContainers() {
    bool running = false;
    const Json& statuses = Array(pod_, {"status", "containerStatuses"});
    for (auto it = statuses.rbegin(); it != statuses.rend(); ++it) {
      CountRestarts(*it);
      if (const std::string reason = ReasonNotRunning(*it); !reason.empty()) {
        status_ = reason;
      } else if (Bool(*it, {"ready"}) && Find(*it, {"state", "running"}) != nullptr) {
        running = true;
        ++ready_;
      }
    }
    if (status_ == "Completed" && running) {
      status_ = HasCondition(pod_, "Ready") ? "Running" : "NotReady";
    }
  }

  const Json& pod_;
  size_t containers_;
  size_t ready_ = 0;
  int64_t restarts_ = 0;
  std::vector<std::string> sidecars_;
  std::string last_restart_;
  std::string status_;
};

Json ReadyCell(const Json& pod, base::WallTime) { return Summary(pod).ready(); }
Json StatusCell(const Json& pod, base::WallTime) { return Summary(pod).status(); }
Json RestartsCell(const Json& pod, base::WallTime now) { return Summary(pod).restarts(now); }

Json IpCell(const Json& pod, base::WallTime) {
  const Json& ips = Array(pod, {"status", "podIPs"});
  const std::string first = ips.empty() ? "" : String(ips.front(), {"ip"});
  return TextOr(TextOr(first, String(pod, {"status", "podIP"})), kNone);
}

Json GatesCell(const Json& pod, base::WallTime) {
  const Json& gates = Array(pod, {"spec", "readinessGates"});
  if (gates.empty()) return std::string(kNone);
  size_t open = 0;
  for (const Json& gate : gates) {
    if (HasCondition(pod, String(gate, {"conditionType"}))) ++open;
  }
  return fmt::format("{}/{}", open, gates.size());
}

// ---- DaemonSet and ControllerRevision

std::string LabelsText(const Json& labels) {
  std::string out;
  for (const auto& [key, value] : labels.items()) {
    if (value.is_string()) {
      out += fmt::format("{}{}={}", out.empty() ? "" : ",", key, value.get<std::string>());
    }
  }
  return out;
}

Json NodeSelectorCell(const Json& set, base::WallTime) {
  return TextOr(LabelsText(Map(set, {"spec", "template", "spec", "nodeSelector"})), kNone);
}

// The selector as a person types it: "a=b,c in (d,e),!f".
Json SelectorCell(const Json& set, base::WallTime) {
  std::string out = LabelsText(Map(set, {"spec", "selector", "matchLabels"}));
  for (const Json& one : Array(set, {"spec", "selector", "matchExpressions"})) {
    const std::string op = String(one, {"operator"});
    const std::string key = String(one, {"key"});
    const std::string values = JoinTexts(Array(one, {"values"}));
    out += fmt::format("{}{}", out.empty() ? "" : ",",
                       op == "In"       ? fmt::format("{} in ({})", key, values)
                       : op == "NotIn"  ? fmt::format("{} notin ({})", key, values)
                       : op == "Exists" ? key
                                        : "!" + key);
  }
  return TextOr(out, kNone);
}

std::string JoinOfContainers(const Json& set, const char* member) {
  Json texts = Json::array();
  for (const Json& container : Array(set, {"spec", "template", "spec", "containers"})) {
    texts.push_back(String(container, {member}));
  }
  return JoinTexts(texts);
}

Json ContainersCell(const Json& set, base::WallTime) { return JoinOfContainers(set, "name"); }
Json ImagesCell(const Json& set, base::WallTime) { return JoinOfContainers(set, "image"); }

// "daemonset.apps/NAME"
Json ControllerCell(const Json& revision, base::WallTime) {
  for (const Json& owner : Array(revision, {"metadata", "ownerReferences"})) {
    if (!Bool(owner, {"controller"})) continue;
    const std::string kind = api::LowerCase(String(owner, {"kind"}));
    const std::string version = String(owner, {"apiVersion"});
    const size_t slash = version.find('/');
    const std::string group = slash == std::string::npos ? "" : "." + version.substr(0, slash);
    return fmt::format("{}{}/{}", kind, group, String(owner, {"name"}));
  }
  return std::string(kNone);
}

}  // namespace

void AddPodColumns(ColumnMap& columns) {
  namespace kinds = api::kinds;
  columns[&kinds::kPod] = {
      {"Name", NameCell},
      {"Ready", ReadyCell},
      {"Status", StatusCell},
      {"Restarts", RestartsCell},
      {"Age", AgeCell},
      {"IP", IpCell, true},
      {"Node", TextOrCell<"<none>", "spec", "nodeName">, true},
      {"Nominated Node", TextOrCell<"<none>", "status", "nominatedNodeName">, true},
      {"Readiness Gates", GatesCell, true}};
  columns[&kinds::kDaemonSet] = {
      {"Name", NameCell},
      {"Desired", NumberCell<"status", "desiredNumberScheduled">, false, "integer"},
      {"Current", NumberCell<"status", "currentNumberScheduled">, false, "integer"},
      {"Ready", NumberCell<"status", "numberReady">, false, "integer"},
      {"Up-to-date", NumberCell<"status", "updatedNumberScheduled">, false, "integer"},
      {"Available", NumberCell<"status", "numberAvailable">, false, "integer"},
      {"Node Selector", NodeSelectorCell},
      {"Age", AgeCell},
      {"Containers", ContainersCell, true},
      {"Images", ImagesCell, true},
      {"Selector", SelectorCell, true}};
  columns[&kinds::kControllerRevision] = {{"Name", NameCell},
                                          {"Controller", ControllerCell},
                                          {"Revision", NumberCell<"revision">, false, "integer"},
                                          {"Age", AgeCell}};
}

}  // namespace berth::apiserver
