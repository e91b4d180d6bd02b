// Columns: Node, Event, and the kinds with few columns.

#include "api/names.h"
#include "api/time.h"
#include "apiserver/documents/table_columns.h"
#include "base/text.h"

namespace berth::apiserver {

using base::json::Array;
using base::json::Bool;
using base::json::Find;
using base::json::Int;
using base::json::Map;
using base::json::String;

namespace {

// ---- Node

Json NodeStatusCell(const Json& node, base::WallTime) {
  std::string status = "Unknown";
  for (const Json& condition : Array(node, {"status", "conditions"})) {
    if (String(condition, {"type"}) == "Ready") {
      status = String(condition, {"status"}) == "True" ? "Ready" : "NotReady";
    }
  }
  return Bool(node, {"spec", "unschedulable"}) ? status + ",SchedulingDisabled" : status;
}

Json NodeRolesCell(const Json& node, base::WallTime) {
  constexpr std::string_view kPrefix = "node-role.kubernetes.io/";
  Json roles = Json::array();
  for (const auto& [key, value] : Map(node, {"metadata", "labels"}).items()) {
    if (key.starts_with(kPrefix) && key.size() > kPrefix.size()) {
      roles.push_back(key.substr(kPrefix.size()));
    } else if (key == "kubernetes.io/role" && value.is_string() && value != "") {
      roles.push_back(value);
    }
  }
  std::sort(roles.begin(), roles.end());
  return TextOr(JoinTexts(roles), kNone);
}

template <Literal kType>
Json NodeAddressCell(const Json& node, base::WallTime) {
  for (const Json& address : Array(node, {"status", "addresses"})) {
    if (String(address, {"type"}) == kType.text) return String(address, {"address"});
  }
  return std::string(kNone);
}

// ---- Event

Json FirstSeenCell(const Json& event, base::WallTime now) {
  return api::AgeSince(TextOr(String(event, {"firstTimestamp"}), String(event, {"eventTime"})),
                       now);
}

Json LastSeenCell(const Json& event, base::WallTime now) {
  if (Find(event, {"series"}) != nullptr) {
    return api::AgeSince(String(event, {"series", "lastObservedTime"}), now);
  }
  const std::string last = String(event, {"lastTimestamp"});
  return last.empty() ? FirstSeenCell(event, now) : Json(api::AgeSince(last, now));
}

Json EventObjectCell(const Json& event, base::WallTime) {
  const std::string kind = api::LowerCase(String(event, {"involvedObject", "kind"}));
  const std::string name = String(event, {"involvedObject", "name"});
  return name.empty() ? kind : fmt::format("{}/{}", kind, name);
}

Json EventSourceCell(const Json& event, base::WallTime) {
  const std::string component =
      TextOr(String(event, {"source", "component"}), String(event, {"reportingComponent"}));
  const std::string instance =
      TextOr(String(event, {"source", "host"}), String(event, {"reportingInstance"}));
  return instance.empty() ? component : fmt::format("{}, {}", component, instance);
}

Json EventMessageCell(const Json& event, base::WallTime) {
  return std::string(base::Trim(String(event, {"message"})));
}

Json EventCountCell(const Json& event, base::WallTime) {
  if (Find(event, {"series"}) != nullptr) return Int(event, {"series", "count"});
  return std::max<int64_t>(1, Int(event, {"count"}));
}

// ---- others

Json ConfigDataCell(const Json& config, base::WallTime) {
  return Map(config, {"data"}).size() + Map(config, {"binaryData"}).size();
}

// The first addresses with their ports, as kubectl shows them.
Json EndpointsCell(const Json& endpoints, base::WallTime) {
  constexpr size_t kShown = 3;
  std::vector<std::string> all;
  for (const Json& subset : Array(endpoints, {"subsets"})) {
    for (const Json& address : Array(subset, {"addresses"})) {
      const std::string ip = String(address, {"ip"});
      if (Array(subset, {"ports"}).empty()) all.push_back(ip);
      for (const Json& port : Array(subset, {"ports"})) {
        const bool v6 = ip.find(':') != std::string::npos;
        all.push_back(
            fmt::format("{0}{1}{2}:{3}", v6 ? "[" : "", ip, v6 ? "]" : "", Int(port, {"port"})));
      }
    }
  }
  if (all.empty()) return std::string(kNone);
  const size_t more = all.size() > kShown ? all.size() - kShown : 0;
  all.resize(all.size() - more);
  return more == 0 ? fmt::format("{}", fmt::join(all, ","))
                   : fmt::format("{} + {} more...", fmt::join(all, ","), more);
}

Json AvailableCell(const Json& service, base::WallTime) {
  for (const Json& condition : Array(service, {"status", "conditions"})) {
    if (String(condition, {"type"}) == "Available") return String(condition, {"status"});
  }
  return "Unknown";
}

Json LocalCell(const Json&, base::WallTime) { return "Local"; }

}  // namespace

void AddCoreColumns(ColumnMap& columns) {
  namespace kinds = api::kinds;
  columns[&kinds::kNode] = {
      {"Name", NameCell},
      {"Status", NodeStatusCell},
      {"Roles", NodeRolesCell},
      {"Age", AgeCell},
      {"Version", TextCell<"status", "nodeInfo", "kubeletVersion">},
      {"Internal-IP", NodeAddressCell<"InternalIP">, true},
      {"External-IP", NodeAddressCell<"ExternalIP">, true},
      {"OS-Image", TextOrCell<"<unknown>", "status", "nodeInfo", "osImage">, true},
      {"Kernel-Version", TextOrCell<"<unknown>", "status", "nodeInfo", "kernelVersion">, true},
      {"Container-Runtime",
       TextOrCell<"<unknown>", "status", "nodeInfo", "containerRuntimeVersion">, true}};
  columns[&kinds::kEvent] = {{"Last Seen", LastSeenCell},
                             {"Type", TextCell<"type">},
                             {"Reason", TextCell<"reason">},
                             {"Object", EventObjectCell},
                             {"Subobject", TextCell<"involvedObject", "fieldPath">, true},
                             {"Source", EventSourceCell, true},
                             {"Message", EventMessageCell},
                             {"First Seen", FirstSeenCell, true},
                             {"Count", EventCountCell, true},
                             {"Name", NameCell, true}};
  columns[&kinds::kNamespace] = {
      {"Name", NameCell}, {"Status", TextCell<"status", "phase">}, {"Age", AgeCell}};
  columns[&kinds::kSecret] = {{"Name", NameCell},
                              {"Type", TextCell<"type">},
                              {"Data", CountCell<"data">, false, "integer"},
                              {"Age", AgeCell}};
  columns[&kinds::kConfigMap] = {
      {"Name", NameCell}, {"Data", ConfigDataCell, false, "integer"}, {"Age", AgeCell}};
  columns[&kinds::kEndpoints] = {
      {"Name", NameCell}, {"Endpoints", EndpointsCell}, {"Age", AgeCell}};
  columns[&kinds::kLease] = {
      {"Name", NameCell}, {"Holder", TextCell<"spec", "holderIdentity">}, {"Age", AgeCell}};
  columns[&kinds::kRuntimeClass] = {
      {"Name", NameCell}, {"Handler", TextCell<"handler">}, {"Age", AgeCell}};
  columns[&kinds::kCustomResourceDefinition] = {
      {"Name", NameCell}, {"Created At", TextCell<"metadata", "creationTimestamp">, false, "date"}};
  columns[&kinds::kApiService] = {
      {"Name", NameCell}, {"Service", LocalCell}, {"Available", AvailableCell}, {"Age", AgeCell}};
}

}  // namespace berth::apiserver
