// Decides which nodes a DaemonSet's pods belong on, and makes such a pod. Pure.
#pragma once

#include <string>

#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"

namespace berth::controllers::daemonset {

inline constexpr char kRevisionHash[] = "controller-revision-hash";
inline constexpr char kTemplateGeneration[] = "pod-template-generation";

struct Fit {
  bool run = false;   // a pod belongs there
  bool stay = false;  // one that is there may stay
};

// Whether a pod of the set belongs on the node. Decides by the template's node name, node selector
// and required node affinity, and by its tolerations with those that every daemon pod has. A taint
// that these do not tolerate keeps a new pod away, and a running one only if the effect is
// NoExecute.
Fit FitOf(const api::DaemonSet& set, const api::Node& node);

// The pod for a node: the template, pinned by node affinity on metadata.name, with the automatic
// tolerations, the labels of its revision, and the set as its controller.
base::Json MakeDaemonPod(const api::DaemonSet& set, const api::NodeName& node,
                         const std::string& hash);

// The node that a pod is on, or is pinned to; "" if neither.
std::string TargetNode(const api::Pod& pod);

// The owner reference of what the set controls.
base::Json ControllerReference(const api::DaemonSet& set);

}  // namespace berth::controllers::daemonset
