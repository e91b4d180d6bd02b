// What a node agent may do, as Kubernetes' Node authorizer has it: one table.
//
// A rule allows verbs on a resource within a limit. What depends on the content of a write (whose
// pod is it, which label changes) is node_restriction.h's.
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
    kOwnName,    // the object that is called as the node
    kNodeField,  // lists and watches with a field selector spec.nodeName=NODE
    kReached,    // what is the node's or what its pods refer to
  };
  std::string_view group;
  std::string_view resource;
  std::string_view subresource;
  std::vector<std::string_view> verbs;
  Limit limit = Limit::kNone;
  std::string_view ns = {};       // only in this namespace
  std::string_view refusal = {};  // for a request that the limit excludes
};

std::span<const NodeRule> NodeRules();

Decision DecideForNode(std::string_view node, const AccessAttributes& asked, ReachOracle& reach);

}  // namespace berth::apiserver
