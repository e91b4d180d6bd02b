#include "cli/explain/nodes.h"

#include <algorithm>

#include "api/selector.h"

namespace berth::cli::explain {
namespace {

// Whether the pod's own node selector and node affinity allow the node.
bool PodAllows(const api::Pod& pod, const api::Node& node) {
  const api::Labels labels = node.labels();
  for (const auto& [key, value] : pod.node_selector()) {
    const auto found = labels.find(key);
    if (found == labels.end() || found->second != value) return false;
  }
  const base::Json* affinity = pod.required_node_affinity();
  if (affinity == nullptr) return true;
  const auto matches = api::NodeSelectorMatches(*affinity, labels, node.name());
  return matches.ok() && *matches;
}

}  // namespace

bool VolumeAllows(const api::PersistentVolume& volume, const api::Node& node) {
  const base::Json* affinity = volume.node_affinity();
  if (affinity == nullptr) return true;
  const auto matches = api::NodeSelectorMatches(*affinity, node.labels(), node.name());
  return matches.ok() && *matches;
}

bool ClassAllows(const api::StorageClass& storage_class, const api::Node& node) {
  const base::Json& terms = storage_class.allowed_topologies();
  if (terms.empty()) return true;
  const api::Labels labels = node.labels();
  return std::any_of(terms.begin(), terms.end(), [&](const base::Json& term) {
    const base::Json& expressions = base::json::Array(term, {"matchLabelExpressions"});
    return std::all_of(expressions.begin(), expressions.end(), [&](const base::Json& expression) {
      const auto label = labels.find(base::json::String(expression, {"key"}));
      if (label == labels.end()) return false;
      const base::Json& values = base::json::Array(expression, {"values"});
      return std::find(values.begin(), values.end(), base::Json(label->second)) != values.end();
    });
  });
}

std::vector<const api::Node*> FindWantedNodes(const State& state) {
  std::vector<const api::Node*> out;
  for (const api::Node& node : state.nodes) {
    const bool wanted = !state.node_name.empty() ? node.name() == state.node_name
                        : state.pod              ? PodAllows(*state.pod, node)
                                                 : true;
    if (wanted) out.push_back(&node);
  }
  return out;
}

std::string JoinNodeNames(const std::vector<const api::Node*>& nodes) {
  std::vector<std::string> names;
  for (const api::Node* node : nodes) names.push_back(node->name());
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

bool IsSilent(const api::Node& node) {
  const base::Json* ready = node.condition("Ready");
  return ready != nullptr && base::json::String(*ready, {"status"}) == "Unknown";
}

}  // namespace berth::cli::explain
