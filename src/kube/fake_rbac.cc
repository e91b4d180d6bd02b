#include "kube/fake_rbac.h"

#include <algorithm>
#include <iterator>

#include "api/codecs/yaml.h"
#include "base/log.h"

namespace berth::kube {

using base::MutexLock;

namespace {

std::string MakeRight(std::string_view verb, std::string_view resource, std::string_view group) {
  return fmt::format("{} {}{}{}", verb, resource, group.empty() ? "" : ".", group);
}

}  // namespace

Json FindRoleRules(std::span<const std::string_view> manifests,
                   const std::vector<std::string>& names) {
  Json rules = Json::array();
  for (const std::string_view text : manifests) {
    const auto documents = api::ParseYaml(text);
    if (!documents.ok()) {
      LOG_ERROR("rights of the roles: {}", base::ToString(documents.status()));
      continue;
    }
    for (const Json& document : *documents) {
      const std::string kind = base::json::String(document, {"kind"});
      if ((kind == "ClusterRole" || kind == "Role") &&
          std::ranges::find(names, base::json::String(document, {"metadata", "name"})) !=
              names.end()) {
        rules.insert(rules.end(), document["rules"].begin(), document["rules"].end());
      }
    }
  }
  return rules;
}

void RestrictedClient::Grant(const Json& rules) {
  MutexLock lock(mutex_);
  for (const Json& rule : rules) {
    for (const Json& group : rule.at("apiGroups")) {
      for (const Json& resource : rule.at("resources")) {
        for (const Json& verb : rule.at("verbs")) {
          granted_.insert(MakeRight(verb.get<std::string>(), resource.get<std::string>(),
                                    group.get<std::string>()));
        }
      }
    }
  }
}

std::set<std::string> RestrictedClient::refused() const {
  MutexLock lock(mutex_);
  return refused_;
}

std::set<std::string> RestrictedClient::used() const {
  MutexLock lock(mutex_);
  return used_;
}

std::set<std::string> RestrictedClient::unused() const {
  MutexLock lock(mutex_);
  std::set<std::string> out;
  std::set_difference(granted_.begin(), granted_.end(), used_.begin(), used_.end(),
                      std::inserter(out, out.end()));
  return out;
}

Status RestrictedClient::CheckRights(std::string_view verb, const api::KindInfo& kind,
                                     std::string_view subresource) {
  std::string resource(kind.plural);
  if (!subresource.empty()) resource += fmt::format("/{}", subresource);
  const std::string right = MakeRight(verb, resource, kind.group);
  MutexLock lock(mutex_);
  if (granted_.empty()) return base::OkStatus();
  if (granted_.contains(right)) {
    used_.insert(right);
    return base::OkStatus();
  }
  refused_.insert(right);
  return base::Error(base::StatusCode::kPermissionDenied, "may not {}", right);
}

StatusOr<Json> RestrictedClient::Get(const api::KindInfo& kind, std::string_view ns,
                                     std::string_view name) {
  RETURN_IF_ERROR(CheckRights("get", kind));
  return client_.Get(kind, ns, name);
}

StatusOr<ListResult> RestrictedClient::List(const api::KindInfo& kind, std::string_view ns,
                                            const ListOptions& options) {
  RETURN_IF_ERROR(CheckRights("list", kind));
  return client_.List(kind, ns, options);
}

StatusOr<Json> RestrictedClient::Create(const api::KindInfo& kind, std::string_view ns,
                                        const Json& object) {
  RETURN_IF_ERROR(CheckRights("create", kind));
  return client_.Create(kind, ns, object);
}

StatusOr<Json> RestrictedClient::Update(const api::KindInfo& kind, const Json& object,
                                        std::string_view subresource) {
  RETURN_IF_ERROR(CheckRights("update", kind, subresource));
  return client_.Update(kind, object, subresource);
}

StatusOr<Json> RestrictedClient::Patch(const api::KindInfo& kind, std::string_view ns,
                                       std::string_view name, PatchType type, const Json& patch,
                                       std::string_view subresource) {
  RETURN_IF_ERROR(CheckRights("patch", kind, subresource));
  return client_.Patch(kind, ns, name, type, patch, subresource);
}

Status RestrictedClient::Delete(const api::KindInfo& kind, std::string_view ns,
                                std::string_view name, const DeleteOptions& options) {
  RETURN_IF_ERROR(CheckRights("delete", kind));
  return client_.Delete(kind, ns, name, options);
}

Status RestrictedClient::DeleteCollection(const api::KindInfo& kind, std::string_view ns,
                                          const DeleteOptions& options) {
  RETURN_IF_ERROR(CheckRights("deletecollection", kind));
  return client_.DeleteCollection(kind, ns, options);
}

StatusOr<Json> RestrictedClient::CreateSubresource(const api::KindInfo& kind, std::string_view ns,
                                                   std::string_view name,
                                                   std::string_view subresource, const Json& body) {
  RETURN_IF_ERROR(CheckRights("create", kind, subresource));
  return client_.CreateSubresource(kind, ns, name, subresource, body);
}

Status RestrictedClient::Watch(const api::KindInfo& kind, std::string_view ns,
                               const ListOptions& options, std::stop_token stop,
                               const std::function<bool(WatchEvent event)>& on_event) {
  RETURN_IF_ERROR(CheckRights("watch", kind));
  return client_.Watch(kind, ns, options, std::move(stop), on_event);
}

Status RestrictedClient::GetStream(std::string_view target, std::string_view accept,
                                   std::stop_token stop,
                                   const std::function<bool(std::string_view chunk)>& on_chunk) {
  return client_.GetStream(target, accept, std::move(stop), on_chunk);
}

}  // namespace berth::kube
