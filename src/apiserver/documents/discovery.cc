#include "apiserver/documents/discovery.h"

#include <algorithm>

#include "api/codecs/protobuf.h"
#include "api/schema/schema.h"
#include "api/version_order.h"
#include "apiserver/formats/entity_tag.h"
#include "apiserver/formats/kube_status.h"
#include "apiserver/formats/media_range.h"

namespace berth::apiserver {

using base::Json;

namespace {

// One group with its versions, the preferred one first.
struct Group {
  std::string name;
  std::vector<std::string> versions;
};

Json TextsJson(const std::vector<std::string_view>& list) {
  Json out = Json::array();
  for (const std::string_view one : list) out.push_back(std::string(one));
  return out;
}

// The groups in the order of the kinds. The core group has the empty name.
std::vector<Group> GroupsOf(Kinds kinds) {
  std::vector<Group> groups;
  for (const api::KindInfo* info : kinds) {
    auto it = std::find_if(groups.begin(), groups.end(),
                           [&](const Group& group) { return group.name == info->group; });
    if (it == groups.end()) it = groups.insert(it, {std::string(info->group), {}});
    const auto at = std::find(it->versions.begin(), it->versions.end(), info->version);
    if (at == it->versions.end()) it->versions.emplace_back(info->version);
  }
  for (Group& group : groups) {
    std::sort(group.versions.begin(), group.versions.end(), api::IsPreferredVersion);
  }
  return groups;
}

// The plain form.

Json ApiVersions(std::string_view server_address) {
  Json addresses = Json::array();
  if (!server_address.empty()) {
    addresses.push_back(
        {{"clientCIDR", "0.0.0.0/0"}, {"serverAddress", std::string(server_address)}});
  }
  return {{"kind", "APIVersions"},
          {"versions", Json::array({"v1"})},
          {"serverAddressByClientCIDRs", std::move(addresses)}};
}

Json GroupJson(const Group& group) {
  Json versions = Json::array();
  for (const std::string& version : group.versions) {
    versions.push_back({{"groupVersion", group.name + "/" + version}, {"version", version}});
  }
  const Json preferred = versions.front();
  return {{"name", group.name}, {"versions", std::move(versions)}, {"preferredVersion", preferred}};
}

Json GroupListJson(const std::vector<Group>& groups) {
  Json list = Json::array();
  for (const Group& group : groups) {
    if (!group.name.empty()) list.push_back(GroupJson(group));
  }
  return {{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", std::move(list)}};
}

void AppendResource(Json& resources, const api::KindInfo& info) {
  Json resource = {{"name", std::string(info.plural)},
                   {"singularName", std::string(info.singular)},
                   {"namespaced", info.namespaced},
                   {"kind", std::string(info.kind)},
                   {"verbs", TextsJson(VerbsOf(info))}};
  if (!info.short_names.empty()) resource["shortNames"] = TextsJson(info.short_names);
  if (!info.categories.empty()) resource["categories"] = TextsJson(info.categories);
  resources.push_back(std::move(resource));
  for (const Subresource& sub : SubresourcesOf(info)) {
    Json one = {{"name", fmt::format("{}/{}", info.plural, sub.name)},
                {"singularName", ""},
                {"namespaced", info.namespaced},
                {"kind", std::string(sub.kind)},
                {"verbs", TextsJson(sub.verbs)}};
    if (sub.group != info.group || sub.version != info.version) {
      if (!sub.group.empty()) one["group"] = std::string(sub.group);
      one["version"] = std::string(sub.version);
    }
    resources.push_back(std::move(one));
  }
}

// The resources of `group_version` ("apps/v1"); null if no kind belongs to it.
Json ResourceListJson(Kinds kinds, std::string_view group_version) {
  Json resources = Json::array();
  for (const api::KindInfo* info : kinds) {
    if (info->api_version() == group_version) AppendResource(resources, *info);
  }
  if (resources.empty()) return nullptr;
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", std::string(group_version)},
          {"resources", std::move(resources)}};
}

// The aggregated form.

Json GroupVersionKind(std::string_view group, std::string_view version, std::string_view kind) {
  return {{"group", std::string(group)},
          {"version", std::string(version)},
          {"kind", std::string(kind)}};
}

// The kind of the answers of a resource of `info`. As in kube-apiserver, the group and version of a
// built-in kind are empty if they are those that list the resource. The kinds that Kubernetes knows
// only from definitions are named in full.
Json ResponseKind(const api::KindInfo& info, std::string_view group, std::string_view version,
                  std::string_view kind) {
  const bool listed = group == info.group && version == info.version;
  if (listed && api::HasProtobuf(api::SchemaOf(info))) return GroupVersionKind("", "", kind);
  return GroupVersionKind(group, version, kind);
}

Json AggregatedResource(const api::KindInfo& info) {
  Json resource = {{"resource", std::string(info.plural)},
                   {"responseKind", ResponseKind(info, info.group, info.version, info.kind)},
                   {"scope", info.namespaced ? "Namespaced" : "Cluster"},
                   {"singularResource", std::string(info.singular)},
                   {"verbs", TextsJson(VerbsOf(info))}};
  if (!info.short_names.empty()) resource["shortNames"] = TextsJson(info.short_names);
  if (!info.categories.empty()) resource["categories"] = TextsJson(info.categories);
  for (const Subresource& sub : SubresourcesOf(info)) {
    resource["subresources"].push_back(
        {{"subresource", std::string(sub.name)},
         {"responseKind", ResponseKind(info, sub.group, sub.version, sub.kind)},
         {"verbs", TextsJson(sub.verbs)}});
  }
  return resource;
}

Json AggregatedGroup(Kinds kinds, const Group& group) {
  Json versions = Json::array();
  for (const std::string& version : group.versions) {
    Json resources = Json::array();
    for (const api::KindInfo* info : kinds) {
      if (info->group == group.name && info->version == version) {
        resources.push_back(AggregatedResource(*info));
      }
    }
    versions.push_back(
        {{"version", version}, {"resources", std::move(resources)}, {"freshness", "Current"}});
  }
  return {{"metadata", {{"name", group.name}}}, {"versions", std::move(versions)}};
}

// /api lists the core group, /apis the others.
http::Response MakeAggregatedDocument(Kinds kinds, bool core, std::string_view version,
                                      const http::Request& request) {
  Json items = Json::array();
  for (const Group& group : GroupsOf(kinds)) {
    if (group.name.empty() == core) items.push_back(AggregatedGroup(kinds, group));
  }
  http::Response response{
      .content_type = fmt::format(
          "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList", version),
      .body = base::json::Dump({{"kind", "APIGroupDiscoveryList"},
                                {"apiVersion", fmt::format("apidiscovery.k8s.io/{}", version)},
                                {"metadata", Json::object()},
                                {"items", std::move(items)}}),
      .headers = {{"Vary", "Accept"}}};
  response.cache_control = "public";
  TagEntity(request, EntityTag(response.body), response);
  return response;
}

// The version of the aggregated form that the client prefers; "" if it accepts none. The aggregated
// form is chosen even if the client prefers plain JSON.
std::string_view AggregatedVersion(const std::vector<MediaRange>& accepted) {
  for (const MediaRange& range : accepted) {
    if (!range.Includes("application/json")) continue;
    if (range.Parameter("as") != "APIGroupDiscoveryList") continue;
    if (range.Parameter("g") != "apidiscovery.k8s.io") continue;
    for (const std::string_view version : {"v2", "v2beta1"}) {
      if (range.Parameter("v") == version) return version;
    }
  }
  return {};
}

bool AcceptsPlainJson(const std::vector<MediaRange>& accepted) {
  return std::any_of(accepted.begin(), accepted.end(), [](const MediaRange& range) {
    return range.Includes("application/json") && range.Parameter("as").empty();
  });
}

// The plain document at `path`; null if there is none.
Json MakePlainDocument(Kinds kinds, std::string_view path, std::string_view server_address) {
  if (path == "/api") return ApiVersions(server_address);
  if (path == "/api/v1") return ResourceListJson(kinds, "v1");
  const std::vector<Group> groups = GroupsOf(kinds);
  if (path == "/apis") return GroupListJson(groups);
  if (!path.starts_with("/apis/")) return nullptr;
  const std::string_view rest = path.substr(6);
  if (rest.find('/') != std::string_view::npos) return ResourceListJson(kinds, rest);
  for (const Group& group : groups) {
    if (group.name != rest) continue;
    Json json = GroupJson(group);
    json["kind"] = "APIGroup";
    json["apiVersion"] = "v1";
    return json;
  }
  return nullptr;
}

}  // namespace

std::optional<http::Response> MakeDiscoveryDocument(Kinds kinds, std::string_view path,
                                                    const http::Request& request,
                                                    std::string_view server_address) {
  const std::vector<MediaRange> accepted = ParseAccept(request.Header("Accept"));
  if (path == "/api" || path == "/apis") {
    const std::string_view version = AggregatedVersion(accepted);
    if (!version.empty()) return MakeAggregatedDocument(kinds, path == "/api", version, request);
  }
  const Json document = MakePlainDocument(kinds, path, server_address);
  if (document.is_null()) return std::nullopt;
  if (!AcceptsPlainJson(accepted)) {
    return ToResponse(KubeError(Reason::kNotAcceptable,
                                "only the following media types are accepted: application/json"));
  }
  return http::Response{.body = base::json::Dump(document)};
}

std::vector<std::string> ListDiscoveryPaths(Kinds kinds) {
  std::vector<std::string> paths = {"/api", "/apis"};
  for (const Group& group : GroupsOf(kinds)) {
    if (!group.name.empty()) paths.push_back("/apis/" + group.name);
    for (const std::string& version : group.versions) {
      paths.push_back(group.name.empty() ? "/api/" + version
                                         : fmt::format("/apis/{}/{}", group.name, version));
    }
  }
  return paths;
}

}  // namespace berth::apiserver
