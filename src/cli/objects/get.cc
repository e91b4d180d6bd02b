#include "cli/objects/get.h"

#include <cstdio>

#include "api/codecs/yaml.h"
#include "base/json.h"
#include "cli/output.h"
#include "cli/plugins/drivers.h"
#include "cli/table.h"
#include "http/url.h"

namespace berth::cli {
namespace {

using base::Json;
using base::StatusCode;

constexpr std::string_view kTableFormat =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

// Returns the URL of the target's objects, or, if `name` is not empty, of the object with this
// name.
std::string MakeUrl(const Target& target, const std::string& name, const ApiOptions& api,
                    const GetOptions& options) {
  const std::string ns = api.all_namespaces ? "" : NamespaceFor(*target.kind, api);
  std::string url = target.kind->url(ns);
  if (!name.empty()) return fmt::format("{}/{}", url, http::PercentEncode(name));
  std::string query;
  if (!options.label_selector.empty()) {
    query += fmt::format("&labelSelector={}", http::PercentEncode(options.label_selector));
  }
  if (!options.field_selector.empty()) {
    query += fmt::format("&fieldSelector={}", http::PercentEncode(options.field_selector));
  }
  return query.empty() ? url : fmt::format("{}?{}", url, query.substr(1));
}

Status ShowTable(kube::Client& client, const ApiOptions& api, const GetOptions& options,
                 const Target& target, bool several_kinds, bool* found) {
  TablePrinter printer(options.output == "wide",
                       api.all_namespaces && target.kind->namespaced && target.names.empty(),
                       several_kinds ? fmt::format("{}/", target.kind->singular) : "");
  std::vector<std::string> names = target.names;
  if (names.empty()) names.push_back("");
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const Json table,
                     GetJson(client, MakeUrl(target, name, api, options), kTableFormat));
    if (base::json::Array(table, {"rows"}).empty()) continue;
    if (several_kinds && *found && name == names.front()) Print("\n");
    *found = true;
    Print(printer.RenderTable(table));
  }
  return base::OkStatus();
}

StatusOr<std::vector<Json>> FetchObjects(kube::Client& client, const ApiOptions& api,
                                         const GetOptions& options, const Target& target) {
  const std::string ns = api.all_namespaces ? "" : NamespaceFor(*target.kind, api);
  if (target.names.empty()) {
    ASSIGN_OR_RETURN(kube::ListResult list,
                     client.List(*target.kind, ns,
                                 {.label_selector = options.label_selector,
                                  .field_selector = options.field_selector}));
    return std::move(list.items);
  }
  std::vector<Json> objects;
  for (const std::string& name : target.names) {
    ASSIGN_OR_RETURN(Json object, client.Get(*target.kind, ns, name));
    objects.push_back(std::move(object));
  }
  return objects;
}

Status ShowObjects(kube::Client& client, const ApiOptions& api, const GetOptions& options,
                   const std::vector<Target>& targets) {
  Json items = Json::array();
  for (const Target& target : targets) {
    ASSIGN_OR_RETURN(std::vector<Json> objects, FetchObjects(client, api, options, target));
    for (Json& object : objects) {
      if (options.output == "name") {
        Print(fmt::format("{}/{}\n", target.kind->singular, api::Object(object).name()));
      }
      items.push_back(std::move(object));
    }
  }
  if (options.output == "name") return base::OkStatus();
  const bool single = targets.size() == 1 && targets[0].names.size() == 1;
  const Json shown = single ? items[0]
                            : Json{{"apiVersion", "v1"},
                                   {"kind", "List"},
                                   {"metadata", {{"resourceVersion", ""}}},
                                   {"items", std::move(items)}};
  Print(options.output == "json" ? shown.dump(4) + "\n" : api::ToYaml(shown));
  return base::OkStatus();
}

// Prints the table of one kind, and then a row for each change.
Status WatchTable(kube::Client& client, const ApiOptions& api, const GetOptions& options,
                  const Target& target, std::stop_token stop) {
  if (target.names.size() > 1) {
    return base::Error(StatusCode::kInvalidArgument, "-w takes one name or none");
  }
  GetOptions narrowed = options;
  if (!target.names.empty()) {
    narrowed.field_selector = fmt::format("metadata.name={}", target.names[0]);
  }
  std::string url = MakeUrl(target, "", api, narrowed);
  TablePrinter printer(options.output == "wide", api.all_namespaces && target.kind->namespaced, "");
  ASSIGN_OR_RETURN(const Json table, GetJson(client, url, kTableFormat));
  Print(printer.RenderTable(table));
  const std::string version = base::json::String(table, {"metadata", "resourceVersion"});
  url += fmt::format("{}watch=true&resourceVersion={}",
                     url.find('?') == std::string::npos ? "?" : "&", version);
  std::string pending;
  Status failed = base::OkStatus();
  RETURN_IF_ERROR(client.GetStream(url, kTableFormat, stop, [&](std::string_view chunk) {
    pending += chunk;
    for (size_t end; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      const auto event = base::json::Parse(std::string_view(pending).substr(0, end));
      if (!event.ok()) {
        failed = event.status();
        return false;
      }
      if (base::json::String(*event, {"type"}) == "ERROR") {
        failed = base::Error(StatusCode::kOutOfRange, "{}",
                             base::json::String(*event, {"object", "message"}));
        return false;
      }
      Print(printer.RenderTable(base::json::Map(*event, {"object"})));
    }
    return true;
  }));
  return failed;
}

}  // namespace

Status GetObjects(kube::Client& client, const ApiOptions& api, const GetOptions& options,
                  std::stop_token stop) {
  const std::string_view known[] = {"", "wide", "json", "yaml", "name"};
  if (std::find(std::begin(known), std::end(known), options.output) == std::end(known)) {
    return base::Error(StatusCode::kInvalidArgument,
                       "-o '{}' is unknown; the known ones are wide, json, yaml and name",
                       options.output);
  }
  // "drivers" is not a kind of the API. Its table is made from objects of several kinds.
  if (options.words == std::vector<std::string>{"drivers"} && !options.watch) {
    return ShowDrivers(client, options.output);
  }
  KindFinder kinds(client);
  ASSIGN_OR_RETURN(const std::vector<Target> targets, ParseTargets(options.words, kinds));
  if (options.watch) {
    if (targets.size() != 1 || (options.output != "" && options.output != "wide")) {
      return base::Error(StatusCode::kInvalidArgument, "-w shows one kind, as a table");
    }
    return WatchTable(client, api, options, targets[0], stop);
  }
  if (options.output != "" && options.output != "wide") {
    return ShowObjects(client, api, options, targets);
  }
  bool found = false;
  for (const Target& target : targets) {
    RETURN_IF_ERROR(ShowTable(client, api, options, target, targets.size() > 1, &found));
  }
  if (!found) {
    const bool everywhere = api.all_namespaces || !targets[0].kind->namespaced;
    PrintError(everywhere ? "No resources found\n"
                          : fmt::format("No resources found in {} namespace.\n", api.ns));
  }
  return base::OkStatus();
}

}  // namespace berth::cli
