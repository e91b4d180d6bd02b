#include "kube/discovery.h"

#include <algorithm>
#include <set>

namespace berth::kube {

using base::StatusCode;
using base::json::Array;
using base::json::String;

namespace {

constexpr std::string_view kAggregated =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
constexpr base::json::ParseLimits kLimits{.max_bytes = 64 * 1024 * 1024, .max_depth = 64};

// Adds the kinds of the discovery document at `path` to `kinds`.
Status ReadDiscovery(Client& client, std::string_view path, ServedKinds& kinds) {
  std::string text;
  RETURN_IF_ERROR(
      client.GetStream(path, kAggregated, std::stop_token(), [&](std::string_view chunk) {
        text += chunk;
        return text.size() <= kLimits.max_bytes;
      }));
  ASSIGN_OR_RETURN(const Json document, base::json::Parse(text, kLimits));
  if (String(document, {"kind"}) != "APIGroupDiscoveryList") {
    return base::Error(StatusCode::kUnimplemented, "{}: the API has no aggregated discovery", path);
  }
  for (const Json& group : Array(document, {"items"})) {
    const std::string name = String(group, {"metadata", "name"});
    std::set<std::string> seen;
    for (const Json& version : Array(group, {"versions"})) {
      for (const Json& resource : Array(version, {"resources"})) {
        if (!seen.insert(String(resource, {"resource"})).second) continue;
        kinds.push_back(ServedKind::FromDiscovery(name, String(version, {"version"}), resource));
      }
    }
  }
  return base::OkStatus();
}

}  // namespace

std::shared_ptr<const ServedKind> ServedKind::FromDiscovery(std::string_view group,
                                                            std::string_view version,
                                                            const Json& resource) {
  const std::shared_ptr<ServedKind> served(new ServedKind);
  served->group_ = group;
  served->version_ = version;
  served->kind_ = String(resource, {"responseKind", "kind"});
  served->plural_ = String(resource, {"resource"});
  served->singular_ = String(resource, {"singularResource"});
  for (const Json& verb : Array(resource, {"verbs"})) {
    if (verb.is_string()) served->verbs_.push_back(verb.get<std::string>());
  }
  for (const Json& name : Array(resource, {"shortNames"})) {
    if (name.is_string()) served->short_names_.push_back(name.get<std::string>());
  }
  served->own_ = {.group = served->group_,
                  .version = served->version_,
                  .kind = served->kind_,
                  .plural = served->plural_,
                  .singular = served->singular_,
                  .short_names = {served->short_names_.begin(), served->short_names_.end()},
                  .namespaced = String(resource, {"scope"}) == "Namespaced"};
  for (const Json& sub : Array(resource, {"subresources"})) {
    served->own_.has_status |= String(sub, {"subresource"}) == "status";
  }
  const api::KindInfo* known = api::FindKind(served->own_.api_version(), served->kind_);
  served->info_ = known != nullptr ? known : &served->own_;
  return served;
}

bool ServedKind::HasVerb(std::string_view verb) const {
  return std::find(verbs_.begin(), verbs_.end(), verb) != verbs_.end();
}

StatusOr<ServedKinds> DiscoverKinds(Client& client) {
  ServedKinds kinds;
  for (const std::string_view path : {"/api", "/apis"}) {
    RETURN_IF_ERROR_WITH(ReadDiscovery(client, path, kinds), "read the kinds that the API serves");
  }
  return kinds;
}

}  // namespace berth::kube
