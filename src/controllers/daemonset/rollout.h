// Plans the changes that give each node the pod that it should have. Pure.
//
// First every node gets its pod, and pods that it should not have are removed (PlanPods). After
// that, pods of earlier revisions are replaced (PlanRollout):
//
//   without surge   an old pod that is not available goes at once; available ones go as long as no
//                   more than maxUnavailable nodes are without an available pod
//   with surge      a new pod comes beside the old one, on maxSurge nodes at a time; the old one
//                   goes when the new one is available
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "controllers/daemonset/placement.h"

namespace berth::controllers::daemonset {

using PodPtr = std::shared_ptr<const api::Pod>;

struct DaemonPod {
  PodPtr pod;
  bool leaving = false;    // is being deleted, or was deleted by this controller
  bool available = false;  // has been ready for minReadySeconds
};

struct NodePods {
  Fit fit;
  std::vector<DaemonPod> pods;  // the oldest first
};
using Nodes = std::map<std::string, NodePods>;

struct Rules {
  std::string hash;  // of the present revision
  bool on_delete = false;
  size_t max_surge = 0;
  size_t max_unavailable = 1;
};

struct Plan {
  std::vector<std::string> create_on;  // nodes
  std::vector<PodPtr> remove;
  // Pods that ended by themselves on a node where one should run. They are replaced, failed ones
  // after a pause.
  std::vector<PodPtr> failed, succeeded;
  bool empty() const {
    return create_on.empty() && remove.empty() && failed.empty() && succeeded.empty();
  }
};

// The rules of a set's strategy for `desired` nodes. A percentage is of that number, rounded up.
Rules RulesOf(const api::DaemonSet& set, const std::string& hash, size_t desired);

// Whether the pod has been ready for `min_ready_seconds` without a break.
bool IsAvailable(const api::Pod& pod, int64_t min_ready_seconds, base::WallTime now);

// The first step: plans the pods that are missing, and those that must go.
Plan PlanPods(const Nodes& nodes, const Rules& rules);
// The second step: plans the replacement of pods of earlier revisions. Empty for OnDelete.
Plan PlanRollout(const Nodes& nodes, const Rules& rules);

}  // namespace berth::controllers::daemonset
