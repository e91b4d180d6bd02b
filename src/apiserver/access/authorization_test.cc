// Who may do what, as a table, and what a node agent's writes are held against.

#include "apiserver/access/authorization.h"

#include "api/kinds/block_kinds.h"
#include "api/kinds/fake_block_writes.h"
#include "apiserver/access/block_agent_restriction.h"
#include "apiserver/access/block_agent_rules.h"
#include "apiserver/access/node_restriction.h"
#include "apiserver/access/node_rules.h"
#include "apiserver/api_fixture.h"
#include "apiserver/formats/kube_status.h"
#include "apiserver/kinds/pod_references.h"

namespace berth::apiserver {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

// Knows that node "a" reaches what is called "mine", and that a StorageCluster names the Secret
// "of-cluster".
class FakeReach : public ReachOracle {
 public:
  bool Reaches(const api::NodeName& node, std::string_view, std::string_view, std::string_view,
               std::string_view name) override {
    return node.text() == "a" && name == "mine";
  }
  bool IsSecretOfCluster(const api::NodeName& node, std::string_view,
                         std::string_view name) override {
    return node.text() == "a" && name == "of-cluster";
  }
};

struct RuleCase {
  AccessAttributes asked;
  bool allowed;
  std::string_view reason = "";
};

AccessAttributes MakeAttributes(std::string verb, std::string group, std::string resource,
                                std::string name = "", std::string subresource = "",
                                std::string ns = "") {
  return {.verb = std::move(verb),
          .group = std::move(group),
          .resource = std::move(resource),
          .subresource = std::move(subresource),
          .ns = std::move(ns),
          .name = std::move(name)};
}

AccessAttributes Where(AccessAttributes asked, std::string field, std::string value) {
  asked.fields.emplace_back(std::move(field), std::move(value));
  return asked;
}

constexpr const char* kStorage = "storage.k8s.io";
constexpr const char* kNoRelation = "no relationship found between node 'a' and this object";

TEST(NodeRulesTest, ANodeMayWhatTheNodeAuthorizerAllows) {
  const RuleCase cases[] = {
      {MakeAttributes("get", "", "nodes", "a"), true},
      {MakeAttributes("list", "", "nodes", "a"), true},
      {MakeAttributes("watch", "", "nodes", "a"), true},
      {MakeAttributes("get", "", "nodes", "b"), false, "only its own Node object can be read"},
      {MakeAttributes("list", "", "nodes"), false, "only its own Node object can be read"},
      {MakeAttributes("create", "", "nodes"), true},
      {MakeAttributes("patch", "", "nodes", "a", "status"), true},
      {MakeAttributes("delete", "", "nodes", "a"), false},
      {MakeAttributes("deletecollection", "", "nodes"), false},

      {MakeAttributes("get", "", "pods", "mine", "", "n"), true},
      {MakeAttributes("get", "", "pods", "other", "", "n"), false, kNoRelation},
      {Where(MakeAttributes("list", "", "pods"), "spec.nodeName", "a"), true},
      {Where(MakeAttributes("watch", "", "pods"), "spec.nodeName", "a"), true},
      {Where(MakeAttributes("watch", "", "pods"), "spec.nodeName", "b"), false,
       "can only list/watch pods with spec.nodeName field selector"},
      {MakeAttributes("list", "", "pods"), false,
       "can only list/watch pods with spec.nodeName field selector"},
      {MakeAttributes("create", "", "pods"), false},
      {MakeAttributes("update", "", "pods", "mine"), false},
      {MakeAttributes("patch", "", "pods", "mine", "status"), true},
      {MakeAttributes("delete", "", "pods", "mine"), true},
      {MakeAttributes("create", "", "pods", "mine", "exec"), false},
      {MakeAttributes("get", "", "pods", "mine", "log"), false},
      {MakeAttributes("create", "", "pods", "mine", "binding"), false},

      {MakeAttributes("get", "", "secrets", "mine", "", "n"), true},
      {MakeAttributes("watch", "", "secrets", "mine", "", "n"), true},
      {MakeAttributes("get", "", "secrets", "other", "", "n"), false, kNoRelation},
      {MakeAttributes("list", "", "secrets", "", "", "n"), false, "No Object name found"},
      {MakeAttributes("update", "", "secrets", "mine", "", "n"), false},
      {MakeAttributes("get", "", "configmaps", "mine", "", "n"), true},
      {MakeAttributes("get", "", "configmaps", "other", "", "n"), false, kNoRelation},
      {MakeAttributes("get", "", "endpoints", "mine", "", "n"), true},
      {MakeAttributes("get", "", "endpoints", "other", "", "n"), false, kNoRelation},
      {MakeAttributes("list", "", "endpoints", "", "", "n"), false},
      {MakeAttributes("get", "", "persistentvolumeclaims", "mine", "", "n"), true},
      {MakeAttributes("list", "", "persistentvolumeclaims"), false},
      {MakeAttributes("patch", "", "persistentvolumeclaims", "mine", "status", "n"), true},
      {MakeAttributes("patch", "", "persistentvolumeclaims", "other", "status", "n"), false,
       kNoRelation},
      {MakeAttributes("patch", "", "persistentvolumeclaims", "mine", "", "n"), false},
      {MakeAttributes("get", "", "persistentvolumes", "mine"), true},
      {MakeAttributes("get", "", "persistentvolumes", "other"), false, kNoRelation},
      {MakeAttributes("create", "", "serviceaccounts", "mine", "token", "n"), true},
      {MakeAttributes("create", "", "serviceaccounts", "other", "token", "n"), false, kNoRelation},
      {MakeAttributes("create", "", "serviceaccounts", "", "", "n"), false},

      {MakeAttributes("get", "coordination.k8s.io", "leases", "a", "", "kube-node-lease"), true},
      {MakeAttributes("update", "coordination.k8s.io", "leases", "a", "", "kube-node-lease"), true},
      {MakeAttributes("create", "coordination.k8s.io", "leases", "", "", "kube-node-lease"), true},
      {MakeAttributes("update", "coordination.k8s.io", "leases", "b", "", "kube-node-lease"), false,
       "can only access node lease with the same name as the requesting node"},
      {MakeAttributes("create", "coordination.k8s.io", "leases", "", "", "default"), false,
       "can only access leases in the \"kube-node-lease\" system namespace"},
      {MakeAttributes("list", "coordination.k8s.io", "leases", "", "", "kube-node-lease"), false},

      {MakeAttributes("create", kStorage, "csinodes"), true},
      {MakeAttributes("update", kStorage, "csinodes", "a"), true},
      {MakeAttributes("update", kStorage, "csinodes", "b"), false,
       "can only access CSINode with the same name as the requesting node"},
      {MakeAttributes("list", kStorage, "csinodes"), false},
      {MakeAttributes("get", kStorage, "volumeattachments", "mine"), true},
      {MakeAttributes("get", kStorage, "volumeattachments", "other"), false, kNoRelation},
      {MakeAttributes("patch", kStorage, "volumeattachments", "mine", "status"), false},
      {MakeAttributes("list", kStorage, "csidrivers"), true},
      {MakeAttributes("create", kStorage, "csidrivers"), false},
      {MakeAttributes("get", kStorage, "storageclasses", "fast"), true},
      {MakeAttributes("list", kStorage, "storageclasses"), false},
      {MakeAttributes("watch", "node.k8s.io", "runtimeclasses"), true},

      {MakeAttributes("create", "", "events", "", "", "n"), true},
      {MakeAttributes("patch", "", "events", "e", "", "n"), true},
      {MakeAttributes("list", "", "events"), false},
      {MakeAttributes("create", "", "namespaces"), false},
      {MakeAttributes("get", "", "namespaces", "default"), false},
      {MakeAttributes("create", "authorization.k8s.io", "subjectaccessreviews"), true},
      {MakeAttributes("create", "authentication.k8s.io", "tokenreviews"), true},
      {Where(MakeAttributes("watch", "storage.berth.dev", "hostmounts"), "spec.nodeName", "a"),
       true},
      {MakeAttributes("watch", "storage.berth.dev", "hostmounts"), false,
       "can only list/watch hostmounts with spec.nodeName field selector"},
      {MakeAttributes("create", "storage.berth.dev", "hostmounts"), false},
      {MakeAttributes("*", "*", "*"), false},
  };
  FakeReach reach;
  for (const RuleCase& one : cases) {
    const std::string what =
        fmt::format("{} {}/{} '{}' in '{}'", one.asked.verb, one.asked.resource,
                    one.asked.subresource, one.asked.name, one.asked.ns);
    const Decision decision = DecideForNode("a", one.asked, reach);
    EXPECT_EQ(decision.allowed, one.allowed) << what;
    if (!one.reason.empty()) EXPECT_EQ(decision.reason, one.reason) << what;
  }
}

TEST(NodeRulesTest, WhatAPodRefersToIsWhatItsNodeMayRead) {
  const auto pod = base::json::Parse(R"({
    "metadata": {"name": "p", "namespace": "n"},
    "spec": {
      "serviceAccountName": "sa",
      "imagePullSecrets": [{"name": "pull"}],
      "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "env"}}},
                              {"valueFrom": {"configMapKeyRef": {"name": "env"}}},
                              {"name": "plain", "value": "x"}],
                      "envFrom": [{"secretRef": {"name": "from"}}]}],
      "initContainers": [{"envFrom": [{"configMapRef": {"name": "init"}}]}],
      "volumes": [{"name": "a", "secret": {"secretName": "vol"}},
                  {"name": "b", "configMap": {"name": "vol"}},
                  {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
                  {"name": "d", "ephemeral": {"volumeClaimTemplate": {}}},
                  {"name": "e", "projected": {"sources": [{"secret": {"name": "proj"}},
                                                          {"configMap": {"name": "proj"}}]}},
                  {"name": "f", "csi": {"nodePublishSecretRef": {"name": "csi"}}},
                  {"name": "g", "emptyDir": {}},
                  {"name": "h", "cephfs": {"secretRef": {"name": "ceph"}}},
                  {"name": "i", "glusterfs": {"endpoints": "servers"}},
                  {"name": "j", "rbd": {"secretRef": {"name": "rados"}}},
                  {"name": "k", "iscsi": {"secretRef": {"name": "chap"}}}]}})");
  ASSERT_TRUE(pod.ok());
  EXPECT_THAT(
      FindPodReferences(*pod),
      ElementsAre("configmaps/n/env", "configmaps/n/init", "configmaps/n/proj", "configmaps/n/vol",
                  "endpoints/n/servers", "persistentvolumeclaims/n/claim",
                  "persistentvolumeclaims/n/p-d", "secrets/n/ceph", "secrets/n/chap",
                  "secrets/n/csi", "secrets/n/env", "secrets/n/from", "secrets/n/proj",
                  "secrets/n/pull", "secrets/n/rados", "secrets/n/vol", "serviceaccounts/n/sa"));
  Json mirror = *pod;
  mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "x";
  EXPECT_TRUE(FindPodReferences(mirror).empty());
}

struct WriteCase {
  std::string_view what;
  const api::KindInfo& info;
  std::string_view subresource;
  std::string_view before;   // JSON merge patch of a base object; "" for none
  std::string_view after;    // "" for a delete
  std::string_view refusal;  // "" if it is allowed
};

TEST(NodeRestrictionTest, ANodeWritesOnlyWhatIsItsOwn) {
  namespace k = api::kinds;
  const WriteCase cases[] = {
      {"creates itself", k::kNode, "", "",
       R"({"metadata":{"name":"a","labels":{"kubernetes.io/hostname":"a","zone":"z",
           "topology.kubernetes.io/zone":"z","x.node.kubernetes.io/y":""}}})",
       ""},
      {"creates another", k::kNode, "", "", R"({"metadata":{"name":"b"}})",
       "node \"a\" is not allowed to modify node \"b\""},
      {"takes a protected label", k::kNode, "", "",
       R"({"metadata":{"name":"a","labels":{"x.node-restriction.kubernetes.io/y":"1",
           "node-role.kubernetes.io/master":""}}})",
       "node \"a\" is not allowed to set the following labels: node-role.kubernetes.io/master, "
       "x.node-restriction.kubernetes.io/y"},
      {"drops a protected label", k::kNode, "",
       R"({"metadata":{"name":"a","labels":{"node-restriction.kubernetes.io/y":"1"}}})",
       R"({"metadata":{"name":"a"}})",
       "is not allowed to modify labels: node-restriction.kubernetes.io/y"},
      {"labels by its status", k::kNode, "status", R"({"metadata":{"name":"a"}})",
       R"({"metadata":{"name":"a","labels":{"k8s.io/x":"1"}}})",
       "is not allowed to modify labels: k8s.io/x"},
      {"keeps a protected label", k::kNode, "status",
       R"({"metadata":{"name":"a","labels":{"node-restriction.kubernetes.io/y":"1"}}})",
       R"({"metadata":{"name":"a","labels":{"node-restriction.kubernetes.io/y":"1"}},"status":{}})",
       ""},
      {"removes a taint", k::kNode, "",
       R"({"metadata":{"name":"a"},"spec":{"taints":[{"key":"t"}]}})",
       R"({"metadata":{"name":"a"}})", "node \"a\" is not allowed to modify taints"},
      {"gives itself an owner", k::kNode, "", R"({"metadata":{"name":"a"}})",
       R"({"metadata":{"name":"a","ownerReferences":[{"name":"o"}]}})",
       "node \"a\" is not allowed to modify ownerReferences"},

      {"reports on its pod", k::kPod, "status",
       R"({"metadata":{"name":"p"},"spec":{"nodeName":"a"}})",
       R"({"metadata":{"name":"p"},"spec":{"nodeName":"a"},"status":{"phase":"Running"}})", ""},
      {"reports on another's pod", k::kPod, "status",
       R"({"metadata":{"name":"p"},"spec":{"nodeName":"b"}})",
       R"({"metadata":{"name":"p"},"spec":{"nodeName":"b"},"status":{"phase":"Failed"}})",
       "node \"a\" can only update pod status for pods with spec.nodeName set to itself"},
      {"relabels its pod", k::kPod, "status",
       R"({"metadata":{"name":"p"},"spec":{"nodeName":"a"}})",
       R"({"metadata":{"name":"p","labels":{"x":"y"}},"spec":{"nodeName":"a"}})",
       "node \"a\" cannot update labels through pod status"},
      {"deletes its pod", k::kPod, "", R"({"metadata":{"name":"p"},"spec":{"nodeName":"a"}})", "",
       ""},
      {"deletes another's pod", k::kPod, "", R"({"metadata":{"name":"p"},"spec":{"nodeName":"b"}})",
       "", "node \"a\" can only delete pods with spec.nodeName set to itself"},
      {"deletes a pod of no node", k::kPod, "", R"({"metadata":{"name":"p"},"spec":{}})", "",
       "node \"a\" can only delete pods with spec.nodeName set to itself"},

      {"finishes a resize", k::kPersistentVolumeClaim, "status",
       R"({"metadata":{"name":"c"},"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}})",
       R"({"metadata":{"name":"c"},"status":{"phase":"Bound","capacity":{"storage":"2Gi"},
           "allocatedResources":{"storage":"2Gi"}}})",
       ""},
      {"unbinds a claim", k::kPersistentVolumeClaim, "status",
       R"({"metadata":{"name":"c"},"status":{"phase":"Bound"}})",
       R"({"metadata":{"name":"c"},"status":{"phase":"Lost"}})",
       "node \"a\" is not allowed to update fields other than status.capacity, status.conditions "
       "and status.allocatedResources"},

      {"makes its lease", k::kLease, "", "",
       R"({"metadata":{"name":"a","namespace":"kube-node-lease"}})", ""},
      {"makes another's lease", k::kLease, "", "",
       R"({"metadata":{"name":"b","namespace":"kube-node-lease"}})",
       "can only access node lease with the same name as the requesting node"},
      {"makes its CSINode", k::kCsiNode, "", "", R"({"metadata":{"name":"a"}})", ""},
      {"makes another's CSINode", k::kCsiNode, "", "", R"({"metadata":{"name":"b"}})",
       "can only access CSINode with the same name as the requesting node"},

      {"holds its host mount", k::kHostMount, "",
       R"({"metadata":{"name":"h"},"spec":{"nodeName":"a"}})",
       R"({"metadata":{"name":"h","finalizers":["x"]},"spec":{"nodeName":"a"}})", ""},
      {"moves its host mount", k::kHostMount, "",
       R"({"metadata":{"name":"h"},"spec":{"nodeName":"a","path":"/x"}})",
       R"({"metadata":{"name":"h"},"spec":{"nodeName":"a","path":"/etc"}})",
       "node \"a\" is not allowed to update fields other than finalizers and status"},
      {"reports on another's host mount", k::kHostMount, "status",
       R"({"metadata":{"name":"h"},"spec":{"nodeName":"b"}})",
       R"({"metadata":{"name":"h"},"spec":{"nodeName":"b"},"status":{"phase":"Mounted"}})",
       "node \"a\" can only update hostmounts with spec.nodeName set to itself"},
      {"tells an event", k::kEvent, "", "", R"({"metadata":{"name":"e","namespace":"n"}})", ""},
  };
  for (const WriteCase& one : cases) {
    const Json before = one.before.empty() ? Json() : base::json::Parse(one.before).value();
    const Json after = one.after.empty() ? Json() : base::json::Parse(one.after).value();
    const auto checked = CheckNodeWrite({.node = "a",
                                         .info = one.info,
                                         .subresource = one.subresource,
                                         .deletes = one.after.empty(),
                                         .before = before.is_null() ? nullptr : &before,
                                         .after = after.is_null() ? nullptr : &after});
    if (one.refusal.empty()) {
      EXPECT_TRUE(checked.ok()) << one.what << ": " << base::Message(checked);
      continue;
    }
    EXPECT_EQ(checked.code(), StatusCode::kPermissionDenied) << one.what;
    EXPECT_THAT(std::string(base::Message(checked)), testing::EndsWith(std::string(one.refusal)))
        << one.what;
  }
}

TEST(BlockAgentRulesTest, ABlockAgentMayWhatItsManifestGrants) {
  constexpr const char* kBlock = "storage.berth.dev";
  const RuleCase cases[] = {
      {MakeAttributes("watch", "", "persistentvolumes"), true},
      {MakeAttributes("patch", "", "persistentvolumes", "pv"), false},
      {MakeAttributes("get", "", "pods", "other", "", "n"), true},
      {MakeAttributes("list", "", "pods"), true},
      {MakeAttributes("watch", "", "pods"), false},
      {MakeAttributes("get", "", "nodes", "b"), true},
      {MakeAttributes("patch", "", "nodes", "a"), false},
      {MakeAttributes("get", "", "nodes", "b", "proxy"), false},
      {MakeAttributes("get", "", "secrets", "mine", "", "n"), false},
      {MakeAttributes("get", "", "secrets", "of-cluster", "", "berth-block"), true},
      {MakeAttributes("get", "", "secrets", "of-cluster", "", "other"), false},
      {MakeAttributes("get", "", "secrets", "other", "", "berth-block"), false},
      {MakeAttributes("list", "", "secrets", "", "", "berth-block"), false},
      {MakeAttributes("watch", "", "secrets", "of-cluster", "", "berth-block"), false},
      {MakeAttributes("get", "", "persistentvolumeclaims", "mine", "", "n"), true},
      {MakeAttributes("list", "", "persistentvolumeclaims"), false},
      {MakeAttributes("delete", "", "persistentvolumeclaims", "mine", "", "n"), false},
      {MakeAttributes("get", "coordination.k8s.io", "leases", "b", "", "kube-node-lease"), true},
      {MakeAttributes("update", "coordination.k8s.io", "leases", "a", "", "kube-node-lease"),
       false},
      {MakeAttributes("create", "", "events", "", "", "n"), true},
      {MakeAttributes("create", kBlock, "volumefences"), true},
      {MakeAttributes("update", kBlock, "volumefences", "pv", "status"), true},
      {MakeAttributes("deletecollection", kBlock, "volumefences"), false},
      {MakeAttributes("delete", kBlock, "nodecleanups", "a"), true},
      {MakeAttributes("patch", kBlock, "storageclusters", "main", "status"), true},
      {MakeAttributes("patch", kBlock, "storageclusters", "main"), false},
      {MakeAttributes("list", kBlock, "hostmounts"), false},
  };
  FakeReach reach;
  for (const RuleCase& one : cases) {
    EXPECT_EQ(DecideByRules(BlockAgentRules(), "a", one.asked, reach).allowed, one.allowed)
        << one.asked.verb << " " << one.asked.resource << "/" << one.asked.subresource;
  }
}

TEST(BlockAgentRestrictionTest, AnAgentWritesTheEntriesOfItsOwnNodeAlone) {
  namespace k = api::kinds;
  const Json nodes = api::BlockWriteNodes();
  for (const api::BlockWrite& write : api::BlockWrites()) {
    const api::KindInfo* info = nullptr;
    for (const auto* kind : {&k::kVolumeFence, &k::kNodeCleanup, &k::kStorageCluster}) {
      if (kind->plural == write.resource) info = kind;
    }
    ASSERT_NE(info, nullptr) << write.resource;
    const auto checked = CheckBlockAgentWrite(
        {.node = "a",
         .info = *info,
         .subresource = write.subresource,
         .before = write.before.is_null() ? nullptr : &write.before,
         .after = write.after.is_null() ? nullptr : &write.after,
         .find_node = [&](const std::string& name) -> base::StatusOr<std::optional<Json>> {
           for (const Json& node : nodes) {
             if (node["metadata"]["name"] == name) return std::optional<Json>(node);
           }
           return std::optional<Json>();
         }});
    EXPECT_EQ(checked.code(), write.allowed ? StatusCode::kOk : StatusCode::kPermissionDenied)
        << write.resource << ": " << write.what << ": " << base::Message(checked);
  }
}

class AuthorizerTest : public ApiTest {
 protected:
  AuthorizerTest() = default;
  http::User Account(std::string name) {
    return {.name = "system:serviceaccount:default:" + std::move(name),
            .uid = {},
            .groups = {"system:serviceaccounts", "system:authenticated"},
            .extra = {{"authentication.kubernetes.io/node-name", {"a"}}}};
  }
  void MakeAccount(const std::string& name, const std::string& role) {
    const auto made =
        Post("/api/v1/namespaces/default/serviceaccounts",
             {{"metadata", {{"name", name}, {"annotations", {{"berth.dev/role", role}}}}}});
    ASSERT_EQ(made.code, 201) << made.body;
  }
};

TEST_F(AuthorizerTest, RolesComeFromGroupsAndFromTheAccountsAnnotation) {
  Authorizer authorizer(*store_);
  using Kind = Role::Kind;
  EXPECT_EQ(authorizer.RoleOf({.name = "x", .uid = {}, .groups = {"y", "system:masters"}}).kind,
            Kind::kAdministrator);
  const Role node =
      authorizer.RoleOf({.name = "system:node:n1", .uid = {}, .groups = {"system:nodes"}});
  EXPECT_EQ(node.kind, Kind::kNode);
  EXPECT_EQ(node.node, "n1");
  // The name alone, or the group alone, makes no node.
  EXPECT_EQ(authorizer.RoleOf({.name = "system:node:n1", .uid = {}}).kind, Kind::kNone);
  EXPECT_EQ(authorizer.RoleOf({.name = "x", .uid = {}, .groups = {"system:nodes"}}).kind,
            Kind::kNone);

  const Role agent = authorizer.RoleOf(
      {.name = "berth.dev:block-agent:n1", .uid = {}, .groups = {"berth.dev:block-agents"}});
  EXPECT_EQ(agent.kind, Kind::kBlockAgent);
  EXPECT_EQ(agent.node, "n1");
  EXPECT_EQ(authorizer.RoleOf({.name = "berth.dev:block-agent:n1", .uid = {}}).kind, Kind::kNone);
  EXPECT_EQ(authorizer.RoleOf({.name = "x", .uid = {}, .groups = {"berth.dev:block-agents"}}).kind,
            Kind::kNone);

  MakeAccount("plain", "");
  MakeAccount("admin", "administrator");
  MakeAccount("agent", "node");
  MakeAccount("block", "block-agent");
  MakeAccount("typo", "Administrator");
  EXPECT_EQ(authorizer.RoleOf(Account("plain")).kind, Kind::kNone);
  EXPECT_EQ(authorizer.RoleOf(Account("admin")).kind, Kind::kAdministrator);
  EXPECT_EQ(authorizer.RoleOf(Account("agent")).kind, Kind::kNode);
  EXPECT_EQ(authorizer.RoleOf(Account("agent")).node, "a");
  EXPECT_EQ(authorizer.RoleOf(Account("block")).kind, Kind::kBlockAgent);
  EXPECT_EQ(authorizer.RoleOf(Account("block")).node, "a");
  EXPECT_EQ(authorizer.RoleOf(Account("typo")).kind, Kind::kNone);
  EXPECT_EQ(authorizer.RoleOf(Account("absent")).kind, Kind::kNone);
  http::User unbound = Account("agent");
  unbound.extra.clear();
  EXPECT_EQ(authorizer.RoleOf(unbound).kind, Kind::kNone);
}

TEST_F(AuthorizerTest, EverybodyMayAskAboutHimselfAndNothingElse) {
  Authorizer authorizer(*store_);
  const http::User nobody{.name = "jane", .uid = {}, .groups = {"system:authenticated"}};
  const auto may = [&](const AccessAttributes& asked) {
    return authorizer.Decide(nobody, authorizer.RoleOf(nobody), asked).allowed;
  };
  EXPECT_TRUE(may(MakeAttributes("create", "authorization.k8s.io", "selfsubjectaccessreviews")));
  EXPECT_TRUE(may(MakeAttributes("create", "authentication.k8s.io", "selfsubjectreviews")));
  EXPECT_TRUE(may({.verb = "get", .path = "/apis/apps/v1"}));
  EXPECT_FALSE(may({.verb = "post", .path = "/apis"}));
  EXPECT_FALSE(may({.verb = "get", .path = "/metrics"}));
  EXPECT_FALSE(may(MakeAttributes("create", "authorization.k8s.io", "subjectaccessreviews")));
  EXPECT_FALSE(may(MakeAttributes("get", "", "pods", "p", "", "default")));
}

TEST_F(AuthorizerTest, RefusesInKubernetesWords) {
  Authorizer authorizer(*store_);
  const http::User jane{.name = "jane", .uid = {}};
  const auto said = [&](const AccessAttributes& asked) {
    const auto refused = authorizer.Authorize(jane, {}, asked);
    EXPECT_EQ(ToResponse(refused).code, 403);
    return std::string(base::Message(refused));
  };
  EXPECT_EQ(
      said(MakeAttributes("list", "", "pods")),
      "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" at the "
      "cluster scope");
  EXPECT_EQ(said(MakeAttributes("delete", kStorage, "csinodes", "n")),
            "csinodes.storage.k8s.io \"n\" is forbidden: User \"jane\" cannot delete resource "
            "\"csinodes\" in API group \"storage.k8s.io\" at the cluster scope");
  EXPECT_EQ(said(MakeAttributes("patch", "", "pods", "p", "status", "d")),
            "pods \"p\" is forbidden: User \"jane\" cannot patch resource \"pods/status\" in API "
            "group \"\" in the namespace \"d\"");
  EXPECT_EQ(said({.verb = "get", .path = "/metrics"}),
            "forbidden: User \"jane\" cannot get path \"/metrics\"");
}

}  // namespace
}  // namespace berth::apiserver
