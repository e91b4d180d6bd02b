#include "cli/objects/describe.h"

#include "api/codecs/yaml.h"
#include "api/time.h"
#include "cli/output.h"

namespace berth::cli {
namespace {

using base::Json;
using base::StatusCode;

void AddField(std::string& out, std::string_view name, const std::string& value) {
  out += fmt::format("{:<14}{}\n", fmt::format("{}:", name), value);
}

void AddMap(std::string& out, std::string_view name, const api::Labels& map) {
  if (map.empty()) {
    AddField(out, name, "<none>");
    return;
  }
  std::string_view label = name;
  for (const auto& [key, value] : map) {
    if (key.find("last-applied-configuration") != std::string::npos) continue;
    AddField(out, label, fmt::format("{}={}", key, value));
    label = "";
  }
}

void AddSection(std::string& out, std::string_view name, const Json& content) {
  out += fmt::format("{}:\n", name);
  const std::string text = api::ToYaml(content);
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find('\n', start), text.size());
    out += fmt::format("  {}\n", std::string_view(text).substr(start, end - start));
    start = end + 1;
  }
}

void AddEvents(std::string& out, std::vector<api::Object>& events, base::WallTime now) {
  if (events.empty()) {
    out += "Events:       <none>\n";
    return;
  }
  const auto order = [](const api::Object& event) {
    return std::pair(event.String({"lastTimestamp"}), event.name());
  };
  std::sort(events.begin(), events.end(),
            [&](const auto& a, const auto& b) { return order(a) < order(b); });
  out += "Events:\n";
  for (const api::Object& event : events) {
    const int64_t count = event.Int({"count"}, 1);
    std::string age = api::AgeSince(event.String({"lastTimestamp"}), now);
    if (count > 1)
      age += fmt::format(" (x{} over {})", count,
                         api::AgeSince(event.String({"firstTimestamp"}), now));
    out += fmt::format("  {:<8} {:<24} {:<18} {}: {}\n", event.String({"type"}),
                       event.String({"reason"}), age, event.String({"source", "component"}),
                       event.String({"message"}));
  }
}

StatusOr<std::vector<api::Object>> ListEvents(kube::Client& client, const api::Object& object) {
  const std::string ns = object.ns().empty() ? "default" : object.ns();
  ASSIGN_OR_RETURN(
      const kube::ListResult list,
      client.List(api::kinds::kEvent, ns,
                  {.field_selector = fmt::format("involvedObject.name={},involvedObject.kind={}",
                                                 object.name(), object.kind())}));
  std::vector<api::Object> events;
  for (const Json& item : list.items) {
    api::Object event(item);
    const std::string uid = event.String({"involvedObject", "uid"});
    if (uid.empty() || uid == object.uid()) events.push_back(std::move(event));
  }
  return events;
}

}  // namespace

std::string DescribeObject(const api::Object& object, std::vector<api::Object> events,
                           base::WallTime now) {
  std::string out;
  AddField(out, "Name", object.name());
  if (!object.ns().empty()) AddField(out, "Namespace", object.ns());
  AddField(out, "Kind", object.kind());
  AddField(out, "UID", object.uid());
  AddField(out, "Created", object.String({"metadata", "creationTimestamp"}));
  if (object.deleting()) {
    AddField(out, "Terminating", object.String({"metadata", "deletionTimestamp"}));
  }
  AddMap(out, "Labels", object.labels());
  AddMap(out, "Annotations", object.annotations());
  if (const auto finalizers = object.finalizers(); !finalizers.empty()) {
    AddField(out, "Finalizers", fmt::format("{}", fmt::join(finalizers, ", ")));
  }
  const bool secret = object.kind() == "Secret";
  for (const auto& [key, value] : object.json().items()) {
    if (key == "apiVersion" || key == "kind" || key == "metadata") continue;
    std::string title = key;
    title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
    if (secret && value.is_object()) {
      out += fmt::format("{}:\n", title);
      for (const auto& [name, hidden] : value.items()) {
        const size_t size = hidden.is_string() ? hidden.get_ref<const std::string&>().size() : 0;
        out += fmt::format("  {}: {} bytes in base64\n", name, size);
      }
    } else if (value.is_structured()) {
      AddSection(out, title, value);
    } else {
      AddField(out, title, value.is_string() ? value.get<std::string>() : base::json::Dump(value));
    }
  }
  AddEvents(out, events, now);
  return out;
}

Status DescribeObjects(kube::Client& client, const ApiOptions& api,
                       const std::vector<std::string>& words, const base::Clock& clock) {
  KindFinder kinds(client);
  ASSIGN_OR_RETURN(const std::vector<Target> targets, ParseTargets(words, kinds));
  bool first = true;
  for (const Target& target : targets) {
    std::vector<Json> objects;
    const std::string ns = NamespaceFor(*target.kind, api);
    if (target.names.empty()) {
      ASSIGN_OR_RETURN(kube::ListResult list,
                       client.List(*target.kind, api.all_namespaces ? "" : ns, {}));
      objects = std::move(list.items);
    }
    for (const std::string& name : target.names) {
      ASSIGN_OR_RETURN(Json object, client.Get(*target.kind, ns, name));
      objects.push_back(std::move(object));
    }
    for (Json& json : objects) {
      const api::Object object(std::move(json));
      ASSIGN_OR_RETURN(std::vector<api::Object> events, ListEvents(client, object));
      Print(fmt::format("{}{}", first ? "" : "\n\n",
                        DescribeObject(object, std::move(events), clock.Now())));
      first = false;
    }
  }
  return base::OkStatus();
}

}  // namespace berth::cli
