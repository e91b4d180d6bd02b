#include "apiserver/table.h"

#include "api/kinds.h"
#include "api/time.h"

namespace berth::apiserver {

using base::Json;
using base::json::Array;
using base::json::Bool;
using base::json::Find;
using base::json::Int;
using base::json::Map;
using base::json::String;

namespace {

constexpr std::string_view kUnset = "<unset>";
constexpr std::string_view kNone = "<none>";

using Cell = Json (*)(const Json& object, base::WallTime now);

struct Column {
  std::string_view name;
  Cell cell;
  bool wide = false;
  std::string_view type = "string";
};

std::string Or(std::string text, std::string_view fallback) {
  return text.empty() ? std::string(fallback) : text;
}

bool Deleting(const Json& object) {
  return Find(object, {"metadata", "deletionTimestamp"}) != nullptr;
}

Json Name(const Json& object, base::WallTime) { return String(object, {"metadata", "name"}); }

Json Age(const Json& object, base::WallTime now) {
  return api::AgeSince(String(object, {"metadata", "creationTimestamp"}), now);
}

// A string literal as a template argument: the path of a cell's member.
template <size_t N>
struct Literal {
  char text[N];
  constexpr Literal(const char (&from)[N]) { std::copy_n(from, N, text); }
};

template <Literal... kPath>
Json Text(const Json& object, base::WallTime) {
  return String(object, {std::string_view(kPath.text)...});
}

template <Literal kFallback, Literal... kPath>
Json TextOr(const Json& object, base::WallTime) {
  return Or(String(object, {std::string_view(kPath.text)...}), kFallback.text);
}

template <Literal... kPath>
Json Flag(const Json& object, base::WallTime) {
  return Bool(object, {std::string_view(kPath.text)...});
}

template <Literal... kPath>
Json FlagText(const Json& object, base::WallTime) {
  return Bool(object, {std::string_view(kPath.text)...}) ? "true" : "false";
}

std::string Join(const Json& list, std::string_view separator = ",") {
  std::string out;
  for (const Json& item : list) {
    if (!item.is_string()) continue;
    out += fmt::format("{}{}", out.empty() ? "" : separator, item.get_ref<const std::string&>());
  }
  return out;
}

std::string AccessModes(const Json& modes) {
  std::string out;
  for (const Json& mode : modes) {
    const std::string_view short_name = mode == "ReadWriteOnce"      ? "RWO"
                                        : mode == "ReadOnlyMany"     ? "ROX"
                                        : mode == "ReadWriteMany"    ? "RWX"
                                        : mode == "ReadWriteOncePod" ? "RWOP"
                                                                     : "";
    if (!short_name.empty()) out += fmt::format("{}{}", out.empty() ? "" : ",", short_name);
  }
  return out;
}

// ---- Pod

Json PodReady(const Json& pod, base::WallTime) {
  size_t ready = 0;
  for (const Json& status : Array(pod, {"status", "containerStatuses"})) {
    if (Bool(status, {"ready"})) ++ready;
  }
  return fmt::format("{}/{}", ready, Array(pod, {"spec", "containers"}).size());
}

// What hinders a container, from its state; empty if nothing does.
std::string ContainerTrouble(const Json& status) {
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

Json PodStatus(const Json& pod, base::WallTime) {
  if (Deleting(pod)) return "Terminating";
  std::string status = Or(String(pod, {"status", "reason"}), String(pod, {"status", "phase"}));
  const size_t inits = Array(pod, {"spec", "initContainers"}).size();
  size_t i = 0;
  for (const Json& init : Array(pod, {"status", "initContainerStatuses"})) {
    const size_t at = i++;
    if (Find(init, {"state", "terminated"}) != nullptr &&
        Int(init, {"state", "terminated", "exitCode"}, -1) == 0) {
      continue;
    }
    const std::string trouble = ContainerTrouble(init);
    return trouble.empty() || trouble == "PodInitializing" ? fmt::format("Init:{}/{}", at, inits)
                                                           : fmt::format("Init:{}", trouble);
  }
  bool running = false;
  for (const Json& container : Array(pod, {"status", "containerStatuses"})) {
    if (const std::string trouble = ContainerTrouble(container); !trouble.empty()) status = trouble;
    running |= Bool(container, {"ready"}) && Find(container, {"state", "running"}) != nullptr;
  }
  if (status == "Completed" && running) status = "Running";
  return status;
}

Json PodRestarts(const Json& pod, base::WallTime) {
  int64_t restarts = 0;
  for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
    for (const Json& status : Array(pod, {"status", list}))
      restarts += Int(status, {"restartCount"});
  }
  return std::to_string(restarts);
}

// ---- volumes

Json VolumeStatus(const Json& object, base::WallTime) {
  return Deleting(object) ? "Terminating" : String(object, {"status", "phase"});
}

Json VolumeClaim(const Json& volume, base::WallTime) {
  const std::string name = String(volume, {"spec", "claimRef", "name"});
  return name.empty()
             ? ""
             : fmt::format("{}/{}", String(volume, {"spec", "claimRef", "namespace"}), name);
}

// A claim shows what it has, once it is bound.
Json ClaimCapacity(const Json& claim, base::WallTime) {
  return String(claim, {"spec", "volumeName"}).empty()
             ? ""
             : String(claim, {"status", "capacity", "storage"});
}

Json ClaimModes(const Json& claim, base::WallTime) {
  return String(claim, {"spec", "volumeName"}).empty()
             ? ""
             : AccessModes(Array(claim, {"status", "accessModes"}));
}

Json ClassName(const Json& object, base::WallTime) {
  const std::string name = String(object, {"metadata", "name"});
  const bool is_default = String(object, {"metadata", "annotations",
                                          "storageclass.kubernetes.io/is-default-class"}) == "true";
  return is_default ? name + " (default)" : name;
}

Json NodeStatus(const Json& node, base::WallTime) {
  std::string status = "Unknown";
  for (const Json& condition : Array(node, {"status", "conditions"})) {
    if (String(condition, {"type"}) == "Ready") {
      status = String(condition, {"status"}) == "True" ? "Ready" : "NotReady";
    }
  }
  return Bool(node, {"spec", "unschedulable"}) ? status + ",SchedulingDisabled" : status;
}

Json NodeRoles(const Json& node, base::WallTime) {
  constexpr std::string_view kPrefix = "node-role.kubernetes.io/";
  std::string roles;
  for (const auto& [key, value] : Map(node, {"metadata", "labels"}).items()) {
    if (key.starts_with(kPrefix) && key.size() > kPrefix.size()) {
      roles += fmt::format("{}{}", roles.empty() ? "" : ",", key.substr(kPrefix.size()));
    }
  }
  return Or(roles, kNone);
}

std::string NodeAddress(const Json& node, std::string_view type) {
  for (const Json& address : Array(node, {"status", "addresses"})) {
    if (String(address, {"type"}) == type) return String(address, {"address"});
  }
  return std::string(kNone);
}

// ---- Event

std::string EventTime(const Json& event, std::initializer_list<const char*> fields) {
  for (const char* field : fields) {
    if (std::string time = String(event, {field}); !time.empty()) return time;
  }
  return String(event, {"metadata", "creationTimestamp"});
}

Json EventLastSeen(const Json& event, base::WallTime now) {
  const std::string series = String(event, {"series", "lastObservedTime"});
  return api::AgeSince(series.empty() ? EventTime(event, {"lastTimestamp", "eventTime"}) : series,
                       now);
}

Json EventObject(const Json& event, base::WallTime) {
  std::string kind = String(event, {"involvedObject", "kind"});
  for (char& c : kind) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return fmt::format("{}/{}", kind, String(event, {"involvedObject", "name"}));
}

Json EventSource(const Json& event, base::WallTime) {
  const std::string component =
      Or(String(event, {"source", "component"}), String(event, {"reportingComponent"}));
  const std::string host = String(event, {"source", "host"});
  return host.empty() ? component : fmt::format("{}, {}", component, host);
}

Json SpecModes(const Json& o, base::WallTime) {
  return AccessModes(Array(o, {"spec", "accessModes"}));
}
constexpr Cell kAttributesClass = TextOr<"<unset>", "spec", "volumeAttributesClassName">;
constexpr Cell kVolumeMode = TextOr<"<unset>", "spec", "volumeMode">;
constexpr Cell kPhase = Text<"status", "phase">;
constexpr Cell kClass = Text<"spec", "storageClassName">;
size_t CountOf(const Json& map) { return map.size(); }

const std::vector<Column>& Columns(const api::KindInfo& info) {
  namespace kinds = api::kinds;
  static const std::map<const api::KindInfo*, std::vector<Column>> all = {
      {&kinds::kPod,
       {{"Name", Name},
        {"Ready", PodReady},
        {"Status", PodStatus},
        {"Restarts", PodRestarts},
        {"Age", Age},
        {"IP", TextOr<"<none>", "status", "podIP">, true},
        {"Node", TextOr<"<none>", "spec", "nodeName">, true},
        {"Nominated Node", TextOr<"<none>", "status", "nominatedNodeName">, true},
        {"Readiness Gates", [](const Json&, base::WallTime) { return Json(std::string(kNone)); },
         true}}},
      {&kinds::kPersistentVolume,
       {{"Name", Name},
        {"Capacity", Text<"spec", "capacity", "storage">},
        {"Access Modes", SpecModes},
        {"Reclaim Policy", Text<"spec", "persistentVolumeReclaimPolicy">},
        {"Status", VolumeStatus},
        {"Claim", VolumeClaim},
        {"StorageClass", kClass},
        {"VolumeAttributesClass", kAttributesClass},
        {"Reason", Text<"status", "reason">},
        {"Age", Age},
        {"VolumeMode", kVolumeMode, true}}},
      {&kinds::kPersistentVolumeClaim,
       {{"Name", Name},
        {"Status", VolumeStatus},
        {"Volume", Text<"spec", "volumeName">},
        {"Capacity", ClaimCapacity},
        {"Access Modes", ClaimModes},
        {"StorageClass", kClass},
        {"VolumeAttributesClass", kAttributesClass},
        {"Age", Age},
        {"VolumeMode", kVolumeMode, true}}},
      {&kinds::kStorageClass,
       {{"Name", ClassName},
        {"Provisioner", Text<"provisioner">},
        {"ReclaimPolicy", Text<"reclaimPolicy">},
        {"VolumeBindingMode", Text<"volumeBindingMode">},
        {"AllowVolumeExpansion", FlagText<"allowVolumeExpansion">},
        {"Age", Age}}},
      {&kinds::kVolumeAttachment,
       {{"Name", Name},
        {"Attacher", Text<"spec", "attacher">},
        {"PV", Text<"spec", "source", "persistentVolumeName">},
        {"Node", Text<"spec", "nodeName">},
        {"Attached", FlagText<"status", "attached">},
        {"Age", Age}}},
      {&kinds::kCsiNode,
       {{"Name", Name},
        {"Drivers",
         [](const Json& o, base::WallTime) { return Json(Array(o, {"spec", "drivers"}).size()); },
         false, "integer"},
        {"Age", Age}}},
      {&kinds::kCsiDriver,
       {{"Name", Name},
        {"AttachRequired",
         [](const Json& o, base::WallTime) {
           return Json(Bool(o, {"spec", "attachRequired"}, true));
         },
         false, "boolean"},
        {"PodInfoOnMount", Flag<"spec", "podInfoOnMount">, false, "boolean"},
        {"StorageCapacity", Flag<"spec", "storageCapacity">, false, "boolean"},
        {"TokenRequests",
         [](const Json& o, base::WallTime) {
           std::string audiences;
           for (const Json& token : Array(o, {"spec", "tokenRequests"})) {
             audiences +=
                 fmt::format("{}{}", audiences.empty() ? "" : ",", String(token, {"audience"}));
           }
           return Json(Or(audiences, kUnset));
         }},
        {"RequiresRepublish", Flag<"spec", "requiresRepublish">, false, "boolean"},
        {"Modes",
         [](const Json& o, base::WallTime) {
           return Json(Join(Array(o, {"spec", "volumeLifecycleModes"})));
         }},
        {"Age", Age}}},
      {&kinds::kCsiStorageCapacity,
       {{"Name", Name},
        {"StorageClassName", Text<"storageClassName">},
        {"Capacity", Text<"capacity">}}},
      {&kinds::kNode,
       {{"Name", Name},
        {"Status", NodeStatus},
        {"Roles", NodeRoles},
        {"Age", Age},
        {"Version", Text<"status", "nodeInfo", "kubeletVersion">},
        {"Internal-IP",
         [](const Json& o, base::WallTime) { return Json(NodeAddress(o, "InternalIP")); }, true},
        {"External-IP",
         [](const Json& o, base::WallTime) { return Json(NodeAddress(o, "ExternalIP")); }, true},
        {"OS-Image", TextOr<"<unknown>", "status", "nodeInfo", "osImage">, true},
        {"Kernel-Version", TextOr<"<unknown>", "status", "nodeInfo", "kernelVersion">, true},
        {"Container-Runtime", TextOr<"<unknown>", "status", "nodeInfo", "containerRuntimeVersion">,
         true}}},
      {&kinds::kEvent,
       {{"Last Seen", EventLastSeen},
        {"Type", Text<"type">},
        {"Reason", Text<"reason">},
        {"Object", EventObject},
        {"Subobject", Text<"involvedObject", "fieldPath">, true},
        {"Source", EventSource, true},
        {"Message", Text<"message">},
        {"First Seen",
         [](const Json& o, base::WallTime now) {
           return Json(api::AgeSince(EventTime(o, {"firstTimestamp", "eventTime"}), now));
         },
         true},
        {"Count",
         [](const Json& o, base::WallTime) {
           return Json(std::max<int64_t>(1, Int(o, {"series", "count"}, Int(o, {"count"}))));
         },
         true, "integer"},
        {"Name", Name, true}}},
      {&kinds::kNamespace, {{"Name", Name}, {"Status", kPhase}, {"Age", Age}}},
      {&kinds::kSecret,
       {{"Name", Name},
        {"Type", Text<"type">},
        {"Data", [](const Json& o, base::WallTime) { return Json(CountOf(Map(o, {"data"}))); },
         false, "integer"},
        {"Age", Age}}},
      {&kinds::kConfigMap,
       {{"Name", Name},
        {"Data",
         [](const Json& o, base::WallTime) {
           return Json(CountOf(Map(o, {"data"})) + CountOf(Map(o, {"binaryData"})));
         },
         false, "integer"},
        {"Age", Age}}},
      {&kinds::kLease, {{"Name", Name}, {"Holder", Text<"spec", "holderIdentity">}, {"Age", Age}}},
      {&kinds::kHostMount,
       {{"Name", Name},
        {"Node", Text<"spec", "nodeName">},
        {"Claim", Text<"spec", "claimName">},
        {"Path", Text<"spec", "path">},
        {"Status", VolumeStatus},
        {"Age", Age},
        {"Message", Text<"status", "message">, true}}},
  };
  static const std::vector<Column> plain = {{"Name", Name}, {"Age", Age}};
  const auto it = all.find(&info.stored());
  return it == all.end() ? plain : it->second;
}

}  // namespace

Json TableColumns(const api::KindInfo& info) {
  Json columns = Json::array();
  for (const Column& column : Columns(info)) {
    columns.push_back({{"name", std::string(column.name)},
                       {"type", std::string(column.type)},
                       {"format", column.name == "Name" && columns.empty() ? "name" : ""},
                       {"description", ""},
                       {"priority", column.wide ? 1 : 0}});
  }
  return columns;
}

Json TableCells(const api::KindInfo& info, const Json& object, base::WallTime now) {
  Json cells = Json::array();
  for (const Column& column : Columns(info)) cells.push_back(column.cell(object, now));
  return cells;
}

}  // namespace berth::apiserver
