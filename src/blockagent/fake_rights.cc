#include "blockagent/fake_rights.h"

#include <gmock/gmock.h>

#include "api/kinds/block_kinds.h"
#include "api/merging/patch.h"
#include "base/log.h"

namespace berth::blockagent {

using base::Json;
using base::Status;
using base::StatusOr;
using base::json::String;

void ServeBlockKinds(kube::FakeClient& api) {
  for (const auto* kind :
       {&api::kinds::kVolumeFence, &api::kinds::kNodeCleanup, &api::kinds::kStorageCluster}) {
    api.Serve(*kind);
  }
}

Json AgentUser(const std::string& node) {
  Json user = {{"username", "system:serviceaccount:berth-block:berth-block-agent"},
               {"groups", {"system:serviceaccounts", "system:authenticated"}}};
  if (!node.empty()) user["extra"] = {{"authentication.kubernetes.io/node-name", {node}}};
  return user;
}

AgentClient::AgentClient(kube::FakeClient& api, const std::string& node)
    : RestrictedClient(api), api_(api), user_(AgentUser(node)) {
  const Json rules = kube::FindRoleRules(RightsManifests(), {"berth-block-agent"});
  EXPECT_FALSE(rules.empty());
  Grant(rules);
  auto policies = AdmissionPolicies::Read(RightsManifests());
  EXPECT_TRUE(policies.ok()) << base::ToString(policies.status());
  if (policies.ok()) policies_ = *std::move(policies);
}

AgentClient::~AgentClient() {
  EXPECT_THAT(refused(), testing::IsEmpty()) << "deploy/block-agent/rbac.yaml";
  const base::MutexLock lock(mutex_);
  EXPECT_THAT(denied_, testing::IsEmpty()) << "deploy/block-agent/policy.yaml";
}

Status AgentClient::CheckPolicies(const api::KindInfo& kind, std::string_view subresource,
                                  Json before, Json after) {
  // Metadata that the API server sets is the same before and after.
  const auto checked = policies_.Check({.group = kind.group,
                                        .resource = kind.plural,
                                        .subresource = subresource,
                                        .user = user_,
                                        .before = std::move(before),
                                        .after = std::move(after)},
                                       [this](const std::string& param) {
                                         EXPECT_EQ(param, "Node");
                                         return api_.PeekAll(api::kinds::kNode);
                                       });
  if (checked.ok()) return checked;
  const base::MutexLock lock(mutex_);
  denied_.insert(base::ToString(checked));
  return checked;
}

StatusOr<Json> AgentClient::Create(const api::KindInfo& kind, std::string_view ns,
                                   const Json& object) {
  if (api_.Peek(kind, ns, String(object, {"metadata", "name"})).is_null()) {
    Json after = object;
    if (kind.has_status) after.erase("status");
    RETURN_IF_ERROR(CheckPolicies(kind, "", Json(), std::move(after)));
  }
  return RestrictedClient::Create(kind, ns, object);
}

StatusOr<Json> AgentClient::Update(const api::KindInfo& kind, const Json& object,
                                   std::string_view subresource) {
  Json before = api_.Peek(kind, String(object, {"metadata", "namespace"}),
                          String(object, {"metadata", "name"}));
  const std::string version = String(object, {"metadata", "resourceVersion"});
  if (!before.is_null() &&
      (version.empty() || version == String(before, {"metadata", "resourceVersion"}))) {
    // A write of the status changes nothing else, and no other write changes the status.
    Json after = subresource == "status" ? before : object;
    const Json& status = subresource == "status" ? object : before;
    after.erase("status");
    if (status.contains("status")) after["status"] = status["status"];
    RETURN_IF_ERROR(CheckPolicies(kind, subresource, std::move(before), std::move(after)));
  }
  return RestrictedClient::Update(kind, object, subresource);
}

StatusOr<Json> AgentClient::Patch(const api::KindInfo& kind, std::string_view ns,
                                  std::string_view name, kube::PatchType type, const Json& patch,
                                  std::string_view subresource) {
  Json before = api_.Peek(kind, ns, name);
  if (!before.is_null()) {
    EXPECT_EQ(type, kube::PatchType::kMerge) << "of the other types this class knows nothing";
    ASSIGN_OR_RETURN(Json after, api::ApplyMergePatch(before, patch));
    RETURN_IF_ERROR(CheckPolicies(kind, subresource, std::move(before), std::move(after)));
  }
  return RestrictedClient::Patch(kind, ns, name, type, patch, subresource);
}

Status AgentClient::Delete(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                           const kube::DeleteOptions& options) {
  Json before = api_.Peek(kind, ns, name);
  if (!before.is_null() &&
      (options.resource_version.empty() ||
       options.resource_version == String(before, {"metadata", "resourceVersion"}))) {
    RETURN_IF_ERROR(CheckPolicies(kind, "", std::move(before), Json()));
  }
  return RestrictedClient::Delete(kind, ns, name, options);
}

}  // namespace berth::blockagent
