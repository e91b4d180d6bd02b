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
     "Lets a watch send BOOKMARK events, which tell how far it has come."},
    {QueryGroup::kList, "continue", "string",
     "Goes on with a list where its last page ended: the continue of that page's metadata."},
    {QueryGroup::kList, "fieldSelector", "string", "Shows only objects with these fields."},
    {QueryGroup::kList, "labelSelector", "string", "Shows only objects with these labels."},
    {QueryGroup::kList, "limit", "integer", "The most objects that a page may have."},
    {QueryGroup::kList, "resourceVersion", "string",
     "The revision that a list is to show, or after which a watch is to begin."},
    {QueryGroup::kList, "resourceVersionMatch", "string",
     "Whether resourceVersion is meant as Exact or as NotOlderThan."},
    {QueryGroup::kList, "sendInitialEvents", "boolean",
     "Lets a watch begin with what is there, and mark the end of that by a bookmark."},
    {QueryGroup::kList, "timeoutSeconds", "integer", "How long a watch lasts at most."},
    {QueryGroup::kList, "watch", "boolean",
     "Tells of changes as they happen instead of listing what is there."},
    {QueryGroup::kWrite, "dryRun", "string", "All: goes through everything but the write itself."},
    {QueryGroup::kWrite, "fieldManager", "string",
     "Who makes this change: the name under which the fields are managed."},
    {QueryGroup::kWrite, "fieldValidation", "string",
     "What to do about fields that are unknown or given twice: Ignore, Warn or Strict."},
    {QueryGroup::kForce, "force", "boolean",
     "Takes over fields that others manage. Only for apply patches."},
    {QueryGroup::kDelete, "dryRun", "string",
     "All: goes through everything but the deletion itself."},
    {QueryGroup::kDelete, "gracePeriodSeconds", "integer",
     "How long the object has to end; zero removes it at once."},
    {QueryGroup::kDelete, "orphanDependents", "boolean", "Superseded by propagationPolicy."},
    {QueryGroup::kDelete, "propagationPolicy", "string",
     "What becomes of the objects that depend on this one: Orphan, Background or Foreground."},
    {QueryGroup::kLog, "container", "string", "Whose log; not needed in a pod of one container."},
    {QueryGroup::kLog, "follow", "boolean", "Goes on with what is logged from now on."},
    {QueryGroup::kLog, "limitBytes", "integer", "Ends after so many bytes."},
    {QueryGroup::kLog, "previous", "boolean", "The log of the container before this one."},
    {QueryGroup::kLog, "sinceSeconds", "integer", "Begins so long ago."},
    {QueryGroup::kLog, "tailLines", "integer", "Begins with the last so many lines."},
    {QueryGroup::kLog, "timestamps", "boolean", "Puts the time before each line."},
    {QueryGroup::kCommand, "command", "string", "What to run, once for each word."},
    {QueryGroup::kStream, "container", "string", "Where; not needed in a pod of one container."},
    {QueryGroup::kStream, "stderr", "boolean", "Sends what it writes to its error output."},
    {QueryGroup::kStream, "stdin", "boolean", "Takes its input from the client."},
    {QueryGroup::kStream, "stdout", "boolean", "Sends what it writes to its output."},
    {QueryGroup::kStream, "tty", "boolean", "Gives it a terminal."},
    {QueryGroup::kPorts, "ports", "integer", "Which ports, for clients that speak WebSocket."},
};

Json Make(std::string_view in, std::string_view name, std::string_view type,
          std::string_view description, OpenApi version) {
  Json out = {{"name", std::string(name)},
              {"in", std::string(in)},
              {"description", std::string(description)}};
  if (in == "path") out["required"] = true;
  Json& where = version == OpenApi::kV2 ? out : out["schema"];
  where["type"] = std::string(type);
  where["uniqueItems"] = true;
  return out;
}

}  // namespace

Json QueryParameters(std::initializer_list<QueryGroup> groups, OpenApi version) {
  Json out = Json::array();
  for (const QueryGroup group : groups) {
    for (const Parameter& parameter : kParameters) {
      if (parameter.group != group) continue;
      out.push_back(Make("query", parameter.name, parameter.type, parameter.description, version));
    }
  }
  return out;
}

Json PathParameter(std::string_view name, std::string_view description, OpenApi version) {
  return Make("path", name, "string", description, version);
}

Json PrettyParameter(OpenApi version) {
  return Make("query", "pretty", "string", "\"true\" indents the answer.", version);
}

}  // namespace berth::apiserver
