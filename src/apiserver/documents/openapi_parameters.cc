#include "apiserver/documents/openapi_parameters.h"

namespace berth::apiserver {
namespace {

struct Parameter {
  QueryGroup group;
  std::string_view name;
  std::string_view type;
  std::string_view description;
};

constexpr Parameter kParameters[] = {
    {QueryGroup::kList, "allowWatchBookmarks", "boolean",
     "A watch also sends BOOKMARK events, which have the revision that it has reached."},
    {QueryGroup::kList, "continue", "string",
     "Continues a list after its last page; the value is metadata.continue of that page."},
    {QueryGroup::kList, "fieldSelector", "string", "Selects objects by their fields."},
    {QueryGroup::kList, "labelSelector", "string", "Selects objects by their labels."},
    {QueryGroup::kList, "limit", "integer", "The maximum number of objects in a page."},
    {QueryGroup::kList, "resourceVersion", "string",
     "The revision of a list, or the revision after which a watch begins."},
    {QueryGroup::kList, "resourceVersionMatch", "string",
     "How resourceVersion applies to a list: Exact or NotOlderThan."},
    {QueryGroup::kList, "sendInitialEvents", "boolean",
     "A watch begins with the existing objects, and marks their end with a bookmark."},
    {QueryGroup::kList, "timeoutSeconds", "integer", "The maximum duration of a watch."},
    {QueryGroup::kList, "watch", "boolean", "Sends changes as they happen instead of a list."},
    {QueryGroup::kWrite, "dryRun", "string", "All: does everything except the write itself."},
    {QueryGroup::kWrite, "fieldManager", "string",
     "The name of the client or user that manages the changed fields."},
    {QueryGroup::kWrite, "fieldValidation", "string",
     "How unknown and duplicate fields are handled: Ignore, Warn or Strict."},
    {QueryGroup::kForce, "force", "boolean",
     "Takes over fields that other managers own. Only for apply patches."},
    {QueryGroup::kDelete, "dryRun", "string", "All: does everything except the deletion itself."},
    {QueryGroup::kDelete, "gracePeriodSeconds", "integer",
     "The time that the object has to end; zero removes it at once."},
    {QueryGroup::kDelete, "orphanDependents", "boolean", "Deprecated: use propagationPolicy."},
    {QueryGroup::kDelete, "propagationPolicy", "string",
     "How dependent objects are deleted: Orphan, Background or Foreground."},
    {QueryGroup::kLog, "container", "string",
     "The container whose log is read. Optional if the pod has one container."},
    {QueryGroup::kLog, "follow", "boolean", "Also sends the lines that are logged from now on."},
    {QueryGroup::kLog, "limitBytes", "integer", "The maximum number of bytes in the answer."},
    {QueryGroup::kLog, "previous", "boolean", "Reads the log of the previous container."},
    {QueryGroup::kLog, "sinceSeconds", "integer", "Sends lines that are at most this old."},
    {QueryGroup::kLog, "tailLines", "integer", "Sends this many lines from the end of the log."},
    {QueryGroup::kLog, "timestamps", "boolean", "Adds the time at the start of each line."},
    {QueryGroup::kCommand, "command", "string",
     "The command, with one parameter for each argument."},
    {QueryGroup::kStream, "container", "string",
     "The container of the command. Optional if the pod has one container."},
    {QueryGroup::kStream, "stderr", "boolean", "Sends the standard error to the client."},
    {QueryGroup::kStream, "stdin", "boolean", "Reads the standard input from the client."},
    {QueryGroup::kStream, "stdout", "boolean", "Sends the standard output to the client."},
    {QueryGroup::kStream, "tty", "boolean", "Allocates a terminal."},
    {QueryGroup::kPorts, "ports", "integer", "The ports to forward, for WebSocket clients."},
};

Json MakeParameter(std::string_view in, std::string_view name, std::string_view type,
                   std::string_view description, OpenApi version) {
  Json out = {{"name", std::string(name)},
              {"in", std::string(in)},
              {"description", std::string(description)}};
  if (in == "path") out["required"] = true;
  Json& schema = version == OpenApi::kV2 ? out : out["schema"];
  schema["type"] = std::string(type);
  schema["uniqueItems"] = true;
  return out;
}

}  // namespace

Json QueryParameters(std::initializer_list<QueryGroup> groups, OpenApi version) {
  Json out = Json::array();
  for (const QueryGroup group : groups) {
    for (const Parameter& parameter : kParameters) {
      if (parameter.group != group) continue;
      out.push_back(
          MakeParameter("query", parameter.name, parameter.type, parameter.description, version));
    }
  }
  return out;
}

Json PathParameter(std::string_view name, std::string_view description, OpenApi version) {
  return MakeParameter("path", name, "string", description, version);
}

Json PrettyParameter(OpenApi version) {
  return MakeParameter("query", "pretty", "string", "\"true\" indents the answer.", version);
}

}  // namespace berth::apiserver
