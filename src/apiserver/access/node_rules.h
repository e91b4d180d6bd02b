// The table of what a node agent may do. It follows Kubernetes' Node authorizer.
//
// A rule allows verbs on a resource within a limit. Checks that need the content of a write (which
// node's pod it is, which label changes) are in node_restriction.h.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace berth::apiserver {

struct AccessAttributes;
struct Decision;
class ReachOracle;

struct NodeRule {
  enum class Limit {
    kNone,       // any object; the content of writes is checked later
    kOwnName,    // the object that has the node's name
    kNodeField,  // lists and watches with a field selector spec.nodeName=NODE
    kReached,    // the node's own objects and those that its pods refer to
    kOfCluster,  // Secrets that StorageClusters name
  };
  std::string_view group;
  std::string_view resource;
  std::string_view subresource;
  std::vector<std::string_view> verbs;
  Limit limit = Limit::kNone;
  std::string_view ns = {};       // only in this namespace
  std::string_view refusal = {};  // the reason for a request that the limit excludes; empty: usual
};

std::span<const NodeRule> NodeRules();

// Whether `rules` allow what `asked` describes to an agent of `node`; with the reason if they do
// not.
Decision DecideByRules(std::span<const NodeRule> rules, std::string_view node,
                       const AccessAttributes& asked, ReachOracle& reach);
// The same with NodeRules().
Decision DecideForNode(std::string_view node, const AccessAttributes& asked, ReachOracle& reach);

}  // namespace berth::apiserver
