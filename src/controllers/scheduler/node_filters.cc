#include "controllers/scheduler/node_filters.h"

#include <fmt/ranges.h>

#include <vector>

#include "api/kinds/taints.h"
#include "api/selector.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::scheduler {

using api::AnyTolerates;
using api::FindUntolerated;
using api::MakeTaint;
using base::Json;
using base::json::String;

std::string Refusals::RenderMessage() const {
  int nodes = 0;
  std::vector<std::string> parts;
  for (const auto& [reason, count] : counts_) {
    nodes += count;
    parts.push_back(fmt::format("{} {}", count, reason));
  }
  if (parts.empty()) return "0/0 nodes are available: no node is registered.";
  return fmt::format("0/{} nodes are available: {}.", nodes, fmt::join(parts, ", "));
}

namespace {

bool ToleratesNoSchedule(const api::Pod& pod, std::string_view key) {
  return AnyTolerates(pod.tolerations(), MakeTaint(key, "", "NoSchedule"));
}

}  // namespace

std::optional<std::string> RefuseNode(const api::Pod& pod, const api::Node& node) {
  // The state of a node that is not ready or is cordoned counts like its taint, because it may be
  // that no controller taints nodes.
  if (!node.ready() && !ToleratesNoSchedule(pod, kNotReadyTaint)) {
    const std::string why = node.ready_message();
    return why.empty() ? "node(s) were not ready" : fmt::format("node(s) were not ready ({})", why);
  }
  if (node.unschedulable() && !ToleratesNoSchedule(pod, kUnschedulableTaint)) {
    return "node(s) were unschedulable";
  }
  if (const Json* taint =
          FindUntolerated(node.taints(), pod.tolerations(), {"NoSchedule", "NoExecute"})) {
    return fmt::format("node(s) had untolerated taint {{{}: {}}}", String(*taint, {"key"}),
                       String(*taint, {"value"}));
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
