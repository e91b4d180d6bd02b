#include "apiserver/access/authorization.h"

#include "apiserver/access/block_agent_rules.h"
#include "apiserver/access/node_rules.h"
#include "apiserver/formats/kube_status.h"
#include "apiserver/formats/object_text.h"
#include "base/log.h"

namespace berth::apiserver {

using base::Json;
using base::json::Map;
using base::json::String;

namespace {

constexpr std::string_view kAccountPrefix = "system:serviceaccount:";
constexpr std::string_view kNodeNameExtra = "authentication.kubernetes.io/node-name";

// The paths that every authenticated user may GET: the server's health, version and API documents.
// A '*' at the end matches any rest.
constexpr std::string_view kOpenPaths[] = {"/.well-known/openid-configuration",
                                           "/api",
                                           "/api/*",
                                           "/apis",
                                           "/apis/*",
                                           "/healthz",
                                           "/livez",
                                           "/openapi",
                                           "/openapi/*",
                                           "/openid/v1/jwks",
                                           "/readyz",
                                           "/version",
                                           "/version/"};

bool PathMatches(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with('*')) return path == pattern;
  pattern.remove_suffix(1);
  return path.starts_with(pattern);
}

// A review that users send about their own rights.
struct SelfReview {
  std::string_view group;
  std::string_view resource;
};
constexpr SelfReview kSelfReviews[] = {{"authentication.k8s.io", "selfsubjectreviews"},
                                       {"authorization.k8s.io", "selfsubjectaccessreviews"},
                                       {"authorization.k8s.io", "selfsubjectrulesreviews"}};

bool IsOpenToAll(const AccessAttributes& asked) {
  if (asked.resource.empty()) {
    return (asked.verb == "get" || asked.verb == "head") &&
           std::any_of(std::begin(kOpenPaths), std::end(kOpenPaths),
                       [&](std::string_view open) { return PathMatches(open, asked.path); });
  }
  return asked.verb == "create" && asked.subresource.empty() &&
         std::any_of(std::begin(kSelfReviews), std::end(kSelfReviews), [&](const SelfReview& one) {
           return one.group == asked.group && one.resource == asked.resource;
         });
}

bool Contains(const std::vector<std::string>& list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Json MakeRule(Json verbs, Json groups, Json resources) {
  return {{"verbs", std::move(verbs)},
          {"apiGroups", std::move(groups)},
          {"resources", std::move(resources)}};
}

// The table of a role that is bound to a node.
std::span<const NodeRule> RulesOfKind(Role::Kind kind) {
  return kind == Role::Kind::kBlockAgent ? BlockAgentRules() : NodeRules();
}

bool IsBoundToNode(const Role& role) {
  return role.kind == Role::Kind::kNode || role.kind == Role::Kind::kBlockAgent;
}

std::string RefusalText(const http::User& user, const AccessAttributes& asked) {
  if (asked.resource.empty()) {
    return fmt::format("User \"{}\" cannot {} path \"{}\"", user.name, asked.verb, asked.path);
  }
  const std::string resource = asked.subresource.empty()
                                   ? asked.resource
                                   : fmt::format("{}/{}", asked.resource, asked.subresource);
  const std::string scope = asked.ns.empty() ? " at the cluster scope"
                                             : fmt::format(" in the namespace \"{}\"", asked.ns);
  return fmt::format("User \"{}\" cannot {} resource \"{}\" in API group \"{}\"{}", user.name,
                     asked.verb, resource, asked.group, scope);
}

}  // namespace

std::string_view AccessAttributes::FieldValue(std::string_view field) const {
  for (const auto& [key, value] : fields) {
    if (key == field) return value;
  }
  return {};
}

std::optional<std::pair<std::string, std::string>> ServiceAccountOf(std::string_view user) {
  if (!user.starts_with(kAccountPrefix)) return std::nullopt;
  user.remove_prefix(kAccountPrefix.size());
  const size_t colon = user.find(':');
  if (colon == 0 || colon == std::string_view::npos || colon + 1 == user.size() ||
      user.find_first_of(":/", colon + 1) != std::string_view::npos ||
      user.substr(0, colon).find('/') != std::string_view::npos) {
    return std::nullopt;
  }
  return std::pair(std::string(user.substr(0, colon)), std::string(user.substr(colon + 1)));
}

Role Authorizer::RoleOf(const http::User& user) {
  if (Contains(user.groups, kAdministrators)) return {.kind = Role::Kind::kAdministrator};
  if (Contains(user.groups, kNodes) && user.name.starts_with(kNodePrefix)) {
    return {.kind = Role::Kind::kNode, .node = user.name.substr(kNodePrefix.size())};
  }
  if (Contains(user.groups, kBlockAgents) && user.name.starts_with(kBlockAgentPrefix)) {
    return {.kind = Role::Kind::kBlockAgent, .node = user.name.substr(kBlockAgentPrefix.size())};
  }
  const auto account = ServiceAccountOf(user.name);
  if (!account) return {};
  const auto record =
      store_.Get(ObjectStoreKey(api::kinds::kServiceAccount, account->first, account->second));
  if (!record.ok()) return {};
  const Json object = DecodeStored(*record->value).value_or(Json());
  const std::string role = String(Map(object, {"metadata", "annotations"}), {kRoleAnnotation});
  if (role == "administrator") return {.kind = Role::Kind::kAdministrator};
  if (role == "node" || role == "block-agent") {
    for (const auto& [key, values] : user.extra) {
      if (key == kNodeNameExtra && values.size() == 1 && !values[0].empty()) {
        return {.kind = role == "node" ? Role::Kind::kNode : Role::Kind::kBlockAgent,
                .node = values[0]};
      }
    }
  }
  return {};
}

Decision Authorizer::Decide(const http::User& user, const Role& role,
                            const AccessAttributes& asked) {
  if (role.kind == Role::Kind::kAdministrator) return {.allowed = true};
  if (IsOpenToAll(asked)) return {.allowed = true};
  if (!IsBoundToNode(role)) return {};
  if (role.node.empty()) {
    return {.reason = fmt::format("unknown node for user \"{}\"", user.name)};
  }
  return DecideByRules(RulesOfKind(role.kind), role.node, asked, reach_);
}

base::Status Authorizer::Authorize(const http::User& user, const Role& role,
                                   const AccessAttributes& asked) {
  const Decision decision = Decide(user, role, asked);
  if (decision.allowed) return base::OkStatus();
  LOG_DEBUG("api: refused: {}", RefusalText(user, asked));
  return AccessDeniedError(user, asked, decision.reason);
}

Json Authorizer::RulesOf(const Role& role) {
  const Json all = Json::array({"*"});
  if (role.kind == Role::Kind::kAdministrator) {
    return {{"resourceRules", Json::array({MakeRule(all, all, all)})},
            {"nonResourceRules", Json::array({{{"verbs", all}, {"nonResourceURLs", all}}})},
            {"incomplete", false}};
  }
  Json rules = Json::array();
  for (const SelfReview& one : kSelfReviews) {
    rules.push_back(MakeRule({"create"}, {std::string(one.group)}, {std::string(one.resource)}));
  }
  Json status = {{"incomplete", false}};
  if (IsBoundToNode(role)) {
    for (const NodeRule& rule : RulesOfKind(role.kind)) {
      Json verbs = Json::array();
      for (const std::string_view verb : rule.verbs) verbs.push_back(std::string(verb));
      const std::string resource = rule.subresource.empty()
                                       ? std::string(rule.resource)
                                       : fmt::format("{}/{}", rule.resource, rule.subresource);
      rules.push_back(MakeRule(std::move(verbs), {std::string(rule.group)}, {resource}));
    }
  }
  if (role.kind == Role::Kind::kNode) {
    // The list is incomplete, because a node's rights also depend on the pods that are bound to it.
    status["incomplete"] = true;
    status["evaluationError"] =
        "the rules of a node apply only to its own objects and to those that its pods refer to";
  }
  status["resourceRules"] = std::move(rules);
  Json paths = Json::array();
  for (const std::string_view path : kOpenPaths) paths.push_back(std::string(path));
  status["nonResourceRules"] =
      Json::array({{{"verbs", Json::array({"get"})}, {"nonResourceURLs", std::move(paths)}}});
  return status;
}

base::Status AccessDeniedError(const http::User& user, const AccessAttributes& asked,
                               std::string_view reason) {
  std::string why = RefusalText(user, asked);
  if (!reason.empty()) why += fmt::format(": {}", reason);
  if (asked.resource.empty()) {
    return KubeError(Reason::kForbidden, fmt::format("forbidden: {}", why));
  }
  const std::string qualified =
      asked.group.empty() ? asked.resource : fmt::format("{}.{}", asked.resource, asked.group);
  const std::string named =
      asked.name.empty() ? qualified : fmt::format("{} \"{}\"", qualified, asked.name);
  return KubeError(Reason::kForbidden, fmt::format("{} is forbidden: {}", named, why),
                   {.name = asked.name, .group = asked.group, .kind = asked.resource});
}

}  // namespace berth::apiserver
