#include "controllers/scheduler/node_filters.h"

#include <fmt/ranges.h>

#include <vector>

#include "api/selector.h"

namespace berth::controllers::scheduler {

using base::Json;
using base::json::String;

std::string Refusals::Text() const {
  int nodes = 0;
  std::vector<std::string> parts;
  for (const auto& [reason, count] : counts_) {
    nodes += count;
    parts.push_back(fmt::format("{} {}", count, reason));
  }
  if (parts.empty()) return "0/0 nodes are available: no node is registered.";
  return fmt::format("0/{} nodes are available: {}.", nodes, fmt::join(parts, ", "));
}

bool Tolerates(const api::Pod& pod, const std::string& key, const std::string& value,
               const std::string& effect) {
  for (const Json& toleration : pod.tolerations()) {
    const std::string its_effect = String(toleration, {"effect"});
    if (!its_effect.empty() && its_effect != effect) continue;
    const std::string its_key = String(toleration, {"key"});
    const bool exists = String(toleration, {"operator"}, "Equal") == "Exists";
    if (its_key.empty() && exists) return true;
    if (its_key == key && (exists || String(toleration, {"value"}) == value)) return true;
  }
  return false;
}

std::optional<std::string> RefuseNode(const api::Pod& pod, const api::Node& node) {
  // Where nothing taints nodes that are not ready or cordoned, their state does the same.
  if (!node.ready() && !Tolerates(pod, "node.kubernetes.io/not-ready", "", "NoSchedule")) {
    const std::string why = node.ready_message();
    return why.empty() ? "node(s) were not ready" : fmt::format("node(s) were not ready ({})", why);
  }
  if (node.unschedulable() &&
      !Tolerates(pod, "node.kubernetes.io/unschedulable", "", "NoSchedule")) {
    return "node(s) were unschedulable";
  }
  for (const Json& taint : node.taints()) {
    const std::string effect = String(taint, {"effect"});
    if (effect != "NoSchedule" && effect != "NoExecute") continue;
    const std::string key = String(taint, {"key"});
    const std::string value = String(taint, {"value"});
    if (!Tolerates(pod, key, value, effect)) {
      return fmt::format("node(s) had untolerated taint {{{}: {}}}", key, value);
    }
  }
  const std::string mismatch = "node(s) didn't match Pod's node affinity/selector";
  const api::Labels labels = node.labels();
  for (const auto& [key, value] : pod.node_selector()) {
    const auto it = labels.find(key);
    if (it == labels.end() || it->second != value) return mismatch;
  }
  if (const Json* required = pod.required_node_affinity()) {
    const auto matches = api::NodeSelectorMatches(*required, labels, node.name());
    if (!matches.ok() || !*matches) return mismatch;
  }
  return std::nullopt;
}

}  // namespace berth::controllers::scheduler
