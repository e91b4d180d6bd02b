// Decides whether a pod may run on a node, without regard to its volumes. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "api/kinds/kinds.h"

namespace berth::controllers::scheduler {

// Why nodes were refused, in Kubernetes' words, and how many for each reason.
class Refusals {
 public:
  void Add(const std::string& reason) { ++counts_[reason]; }
  // "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) were not ready."
  std::string RenderMessage() const;

 private:
  std::map<std::string, int> counts_;
};

// nullopt: the pod may run there. Otherwise the reason: not ready, unschedulable, a taint, or its
// nodeSelector and required node affinity.
std::optional<std::string> RefuseNode(const api::Pod& pod, const api::Node& node);

}  // namespace berth::controllers::scheduler
