#include "cli/plugins/drivers.h"

#include "api/kinds/flex_reports.h"
#include "cli/output.h"
#include "cli/table.h"

namespace berth::cli {

using base::Json;
using base::Status;
using base::StatusCode;

namespace {

Json MakeDriverRow(const std::string& name, const char* kind, const std::string& node,
                   const char* state, const std::string& reason) {
  return {{"cells", {name, kind, node, state, reason}}};
}

const char* ToState(const api::FlexReport& report) {
  if (report.removed) return "Removed";
  return report.ready ? "Ready" : "Failed";
}

template <typename T>
base::StatusOr<std::vector<T>> ListAll(kube::Client& client) {
  ASSIGN_OR_RETURN(kube::ListResult list, client.List(T::kInfo, "", {}));
  std::vector<T> objects;
  for (Json& item : list.items) objects.emplace_back(std::move(item));
  return objects;
}

}  // namespace

Json MakeDriverTable(const std::vector<api::Node>& nodes,
                     const std::vector<api::CsiNode>& csi_nodes) {
  Json rows = Json::array();
  for (const api::CsiNode& node : csi_nodes) {
    for (const api::CsiNode::Driver& driver : node.drivers()) {
      rows.push_back(MakeDriverRow(driver.name, "CSI", node.name(), "Ready", ""));
    }
  }
  for (const api::Node& node : nodes) {
    const auto drivers =
        api::ReadFlexReports(node.annotation(std::string(api::kFlexDriversAnnotation)));
    for (const auto& [name, report] : drivers) {
      rows.push_back(
          MakeDriverRow(name, "Flexvolume", node.name(), ToState(report), report.reason));
    }
  }
  Json columns = Json::array();
  for (const char* name : {"Name", "Kind", "Node", "State", "Reason"}) {
    columns.push_back({{"name", name}, {"type", "string"}, {"priority", 0}});
  }
  return {{"columnDefinitions", std::move(columns)}, {"rows", std::move(rows)}};
}

Status ShowDrivers(kube::Client& client, const std::string& output) {
  ASSIGN_OR_RETURN(const auto nodes, ListAll<api::Node>(client));
  ASSIGN_OR_RETURN(const auto csi_nodes, ListAll<api::CsiNode>(client));
  const Json table = MakeDriverTable(nodes, csi_nodes);
  if (output == "json") {
    Json drivers = Json::array();
    for (const Json& row : table["rows"]) {
      const Json& cells = row["cells"];
      drivers.push_back({{"name", cells[0]},
                         {"kind", cells[1]},
                         {"node", cells[2]},
                         {"state", cells[3]},
                         {"reason", cells[4]}});
    }
    Print(drivers.dump(2) + "\n");
  } else if (!output.empty() && output != "wide") {
    return base::Error(StatusCode::kInvalidArgument,
                       "-o '{}' is unknown for drivers; the known ones are wide and json", output);
  } else if (table["rows"].empty()) {
    PrintError("No drivers found\n");
  } else {
    Print(TablePrinter(output == "wide", false, "").RenderTable(table));
  }
  return base::OkStatus();
}

}  // namespace berth::cli
