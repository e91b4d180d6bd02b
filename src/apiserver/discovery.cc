#include "apiserver/discovery.h"

#include <set>

#include "api/kind_info.h"

namespace berth::apiserver {

using base::Json;

namespace {

// The release of Kubernetes whose API the kinds follow; clients read features from it.
constexpr std::string_view kMajor = "1";
constexpr std::string_view kMinor = "32";

struct Subresource {
  std::string_view name;
  std::string_view kind;
  std::string_view group;
  std::string_view version;
  std::vector<std::string_view> verbs;
};

std::vector<Subresource> SubresourcesOf(const api::KindInfo& info) {
  std::vector<Subresource> all;
  if (info.has_status) {
    all.push_back({"status", info.kind, info.group, info.version, {"get"}});
    if (!info.read_only) all.back().verbs = {"get", "patch", "update"};
  }
  if (&info == &api::kinds::kPod) {
    all.push_back({"binding", "Binding", "", "v1", {"create"}});
    all.push_back({"exec", "PodExecOptions", "", "v1", {"create", "get"}});
    all.push_back({"log", "Pod", "", "v1", {"get"}});
  }
  if (&info == &api::kinds::kServiceAccount) {
    all.push_back({"token", "TokenRequest", "authentication.k8s.io", "v1", {"create"}});
  }
  return all;
}

template <typename List>
Json Strings(const List& list) {
  Json out = Json::array();
  for (const std::string_view one : list) out.push_back(std::string(one));
  return out;
}

Json Verbs(const api::KindInfo& info) {
  if (info.read_only) return Json::array({"get", "list", "watch"});
  return Json::array(
      {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"});
}

Json ResourceList(std::string_view group_version) {
  Json resources = Json::array();
  for (const api::KindInfo* info : api::AllKinds()) {
    if (info->api_version() != group_version) continue;
    Json resource = {{"name", std::string(info->plural)},
                     {"singularName", std::string(info->singular)},
                     {"namespaced", info->namespaced},
                     {"kind", std::string(info->kind)},
                     {"verbs", Verbs(*info)}};
    if (!info->short_names.empty()) resource["shortNames"] = Strings(info->short_names);
    if (!info->categories.empty()) resource["categories"] = Strings(info->categories);
    resources.push_back(std::move(resource));
    for (const Subresource& sub : SubresourcesOf(*info)) {
      Json one = {{"name", fmt::format("{}/{}", info->plural, sub.name)},
                  {"singularName", ""},
                  {"namespaced", info->namespaced},
                  {"kind", std::string(sub.kind)},
                  {"verbs", Strings(sub.verbs)}};
      if (!sub.group.empty() && sub.group != info->group) {
        one["group"] = std::string(sub.group);
        one["version"] = std::string(sub.version);
      }
      resources.push_back(std::move(one));
    }
  }
  if (resources.empty()) return nullptr;
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", std::string(group_version)},
          {"resources", std::move(resources)}};
}

// Group names with their versions, the core group excluded, in the kind table's order.
std::vector<std::pair<std::string, std::set<std::string>>> Groups() {
  std::vector<std::pair<std::string, std::set<std::string>>> groups;
  for (const api::KindInfo* info : api::AllKinds()) {
    if (info->group.empty()) continue;
    auto it = std::find_if(groups.begin(), groups.end(),
                           [&](const auto& group) { return group.first == info->group; });
    if (it == groups.end()) it = groups.insert(it, {std::string(info->group), {}});
    it->second.insert(std::string(info->version));
  }
  return groups;
}

Json Group(const std::string& name, const std::set<std::string>& versions) {
  Json list = Json::array();
  for (const std::string& version : versions) {
    list.push_back({{"groupVersion", name + "/" + version}, {"version", version}});
  }
  const Json preferred = list.front();
  return {{"name", name}, {"versions", std::move(list)}, {"preferredVersion", preferred}};
}

Json AggregatedResource(const api::KindInfo& info) {
  const auto kind = [](std::string_view group, std::string_view version, std::string_view name) {
    return Json{{"group", std::string(group)},
                {"version", std::string(version)},
                {"kind", std::string(name)}};
  };
  Json resource = {{"resource", std::string(info.plural)},
                   {"responseKind", kind(info.group, info.version, info.kind)},
                   {"scope", info.namespaced ? "Namespaced" : "Cluster"},
                   {"singularResource", std::string(info.singular)},
                   {"verbs", Verbs(info)}};
  if (!info.short_names.empty()) resource["shortNames"] = Strings(info.short_names);
  if (!info.categories.empty()) resource["categories"] = Strings(info.categories);
  for (const Subresource& sub : SubresourcesOf(info)) {
    resource["subresources"].push_back({{"subresource", std::string(sub.name)},
                                        {"responseKind", kind(sub.group, sub.version, sub.kind)},
                                        {"verbs", Strings(sub.verbs)}});
  }
  return resource;
}

Json AggregatedGroup(const std::string& name, const std::set<std::string>& versions) {
  Json list = Json::array();
  for (const std::string& version : versions) {
    Json resources = Json::array();
    for (const api::KindInfo* info : api::AllKinds()) {
      if (info->group == name && info->version == version)
        resources.push_back(AggregatedResource(*info));
    }
    list.push_back(
        {{"version", version}, {"freshness", "Current"}, {"resources", std::move(resources)}});
  }
  return {{"metadata", {{"name", name}}}, {"versions", std::move(list)}};
}

// Which aggregated form is asked for first, before plain JSON: "v2", "v2beta1" or "".
std::string_view AggregatedVersion(std::string_view accept) {
  const size_t v2 = accept.find("g=apidiscovery.k8s.io;v=v2;");
  const size_t beta = accept.find("g=apidiscovery.k8s.io;v=v2beta1;");
  if (v2 != std::string_view::npos) return "v2";
  return beta != std::string_view::npos ? "v2beta1" : "";
}

Response Aggregated(std::string_view version, Json items) {
  return {.content_type = fmt::format(
              "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList", version),
          .body = base::json::Dump({{"kind", "APIGroupDiscoveryList"},
                                    {"apiVersion", fmt::format("apidiscovery.k8s.io/{}", version)},
                                    {"metadata", Json::object()},
                                    {"items", std::move(items)}})};
}

Response Plain(const Json& document) { return {.body = base::json::Dump(document)}; }

Response Version() {
  return Plain({{"major", std::string(kMajor)},
                {"minor", std::string(kMinor)},
                {"gitVersion", fmt::format("v{}.{}.0+berth", kMajor, kMinor)},
                {"gitCommit", ""},
                {"gitTreeState", "clean"},
                {"buildDate", "1970-01-01T00:00:00Z"},
                {"goVersion", ""},
                {"compiler", "clang"},
                {"platform", "linux/amd64"}});
}

Response Api(std::string_view aggregated) {
  if (!aggregated.empty())
    return Aggregated(aggregated, Json::array({AggregatedGroup("", {"v1"})}));
  return Plain({{"kind", "APIVersions"},
                {"versions", Json::array({"v1"})},
                {"serverAddressByClientCIDRs", Json::array()}});
}

Response Apis(std::string_view aggregated) {
  Json groups = Json::array();
  for (const auto& [name, versions] : Groups()) {
    groups.push_back(aggregated.empty() ? Group(name, versions) : AggregatedGroup(name, versions));
  }
  if (!aggregated.empty()) return Aggregated(aggregated, std::move(groups));
  return Plain({{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(groups)}});
}

}  // namespace

std::optional<Response> DiscoveryDocument(std::string_view path, std::string_view accept) {
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path == "/version") return Version();
  if (path == "/healthz" || path == "/readyz" || path == "/livez") {
    return Response{.content_type = "text/plain; charset=utf-8", .body = "ok"};
  }
  if (path == "/api") return Api(AggregatedVersion(accept));
  if (path == "/apis") return Apis(AggregatedVersion(accept));
  // An empty document in protobuf: kubectl then knows of no schema and leaves validation to the
  // server.
  if (path == "/openapi/v2") {
    return Response{.content_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"};
  }
  if (path == "/api/v1") return Plain(ResourceList("v1"));
  if (!path.starts_with("/apis/")) return std::nullopt;
  const std::string_view rest = path.substr(6);
  if (rest.find('/') == std::string_view::npos) {
    for (const auto& [name, versions] : Groups()) {
      if (name != rest) continue;
      Json group = Group(name, versions);
      group["kind"] = "APIGroup";
      group["apiVersion"] = "v1";
      return Plain(group);
    }
    return std::nullopt;
  }
  const Json resources = ResourceList(rest);
  return resources.is_null() ? std::nullopt : std::optional<Response>(Plain(resources));
}

}  // namespace berth::apiserver
