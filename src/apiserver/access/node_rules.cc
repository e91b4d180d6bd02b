#include "apiserver/access/node_rules.h"

#include "apiserver/access/authorization.h"

namespace berth::apiserver {

namespace {

using Limit = NodeRule::Limit;

constexpr std::string_view kStorage = "storage.k8s.io";
constexpr std::string_view kHostMounts = "storage.berth.dev";
constexpr std::string_view kLeaseNamespace = "kube-node-lease";

constexpr std::string_view kOnlyOwnNode = "only its own Node object can be read";
constexpr std::string_view kOnlyOwnLease =
    "can only access node lease with the same name as the requesting node";
constexpr std::string_view kOnlyOwnCsiNode =
    "can only access CSINode with the same name as the requesting node";
constexpr std::string_view kOnlyOwnPods =
    "can only list/watch pods with spec.nodeName field selector";
constexpr std::string_view kOnlyOwnHostMounts =
    "can only list/watch hostmounts with spec.nodeName field selector";

bool IsWithinLimit(const NodeRule& rule, std::string_view node, const AccessAttributes& asked,
                   ReachOracle& reach) {
  switch (rule.limit) {
    case Limit::kNone:
      return true;
    case Limit::kOwnName:
      return asked.name == node;
    case Limit::kNodeField:
      return asked.FieldValue("spec.nodeName") == node;
    case Limit::kReached:
      return !asked.name.empty() &&
             reach.Reaches(api::NodeName(node), asked.group, asked.resource, asked.ns, asked.name);
    case Limit::kOfCluster:
      return !asked.name.empty() &&
             reach.IsSecretOfCluster(api::NodeName(node), asked.ns, asked.name);
  }
  return false;
}

std::string RefusalReason(const NodeRule& rule, std::string_view node,
                          const AccessAttributes& asked) {
  if (!rule.refusal.empty()) return std::string(rule.refusal);
  if (asked.name.empty()) return "No Object name found";
  if (rule.limit == Limit::kOfCluster)
    return "no StorageCluster of a volume of this node names this Secret";
  return fmt::format("no relationship found between node '{}' and this object", node);
}

}  // namespace

std::span<const NodeRule> NodeRules() {
  static const std::vector<NodeRule> rules = {
      // The node itself.
      {"", "nodes", "", {"create", "update", "patch"}},
      {"", "nodes", "", {"get", "list", "watch"}, Limit::kOwnName, "", kOnlyOwnNode},
      {"", "nodes", "status", {"update", "patch"}},
      // The name of a create is in the body, so node_restriction.h checks it.
      {"coordination.k8s.io", "leases", "", {"create"}, Limit::kNone, kLeaseNamespace},
      {"coordination.k8s.io",
       "leases",
       "",
       {"get", "update", "patch", "delete"},
       Limit::kOwnName,
       kLeaseNamespace,
       kOnlyOwnLease},
      {kStorage, "csinodes", "", {"create"}},
      {kStorage,
       "csinodes",
       "",
       {"get", "update", "patch", "delete"},
       Limit::kOwnName,
       "",
       kOnlyOwnCsiNode},
      // The node's pods, and the objects that they refer to.
      {"", "pods", "", {"get"}, Limit::kReached},
      {"", "pods", "", {"list", "watch"}, Limit::kReached, "", kOnlyOwnPods},
      {"", "pods", "", {"list", "watch"}, Limit::kNodeField, "", kOnlyOwnPods},
      {"", "pods", "", {"delete"}},
      {"", "pods", "eviction", {"create"}},
      {"", "pods", "status", {"update", "patch"}},
      {"", "secrets", "", {"get", "list", "watch"}, Limit::kReached},
      {"", "configmaps", "", {"get", "list", "watch"}, Limit::kReached},
      {"", "endpoints", "", {"get"}, Limit::kReached},
      {"", "persistentvolumeclaims", "", {"get"}, Limit::kReached},
      {"", "persistentvolumeclaims", "status", {"update", "patch"}, Limit::kReached},
      {"", "persistentvolumes", "", {"get"}, Limit::kReached},
      {"", "serviceaccounts", "token", {"create"}, Limit::kReached},
      {kStorage, "volumeattachments", "", {"get"}, Limit::kReached},
      // Claims that are mounted on the host itself; only Berth has this kind.
      {kHostMounts, "hostmounts", "", {"get"}, Limit::kReached},
      {kHostMounts, "hostmounts", "", {"list", "watch"}, Limit::kNodeField, "", kOnlyOwnHostMounts},
      {kHostMounts, "hostmounts", "", {"update", "patch"}},
      {kHostMounts, "hostmounts", "status", {"update", "patch"}},
      // Objects that belong to no node.
      {"", "events", "", {"create", "update", "patch"}},
      {kStorage, "csidrivers", "", {"get", "list", "watch"}},
      // The agent reads whether a pod's runtime handler may mount volumes of the class (KEP-2857).
      {kStorage, "storageclasses", "", {"get"}},
      {"node.k8s.io", "runtimeclasses", "", {"get", "list", "watch"}},
      {"authentication.k8s.io", "tokenreviews", "", {"create"}},
      {"authorization.k8s.io", "subjectaccessreviews", "", {"create"}},
      {"authorization.k8s.io", "localsubjectaccessreviews", "", {"create"}},
  };
  return rules;
}

Decision DecideForNode(std::string_view node, const AccessAttributes& asked, ReachOracle& reach) {
  return DecideByRules(NodeRules(), node, asked, reach);
}

Decision DecideByRules(std::span<const NodeRule> rules, std::string_view node,
                       const AccessAttributes& asked, ReachOracle& reach) {
  Decision decision;
  for (const NodeRule& rule : rules) {
    if (rule.group != asked.group || rule.resource != asked.resource ||
        rule.subresource != asked.subresource ||
        std::find(rule.verbs.begin(), rule.verbs.end(), asked.verb) == rule.verbs.end()) {
      continue;
    }
    if (!rule.ns.empty() && rule.ns != asked.ns) {
      decision.reason =
          fmt::format("can only access {} in the \"{}\" system namespace", rule.resource, rule.ns);
      continue;
    }
    if (IsWithinLimit(rule, node, asked, reach)) return {.allowed = true};
    decision.reason = RefusalReason(rule, node, asked);
  }
  return decision;
}

}  // namespace berth::apiserver
