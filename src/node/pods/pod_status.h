// Makes pod.status as the kubelet writes it. Pure.
#pragma once

#include <map>
#include <string>

#include "api/kinds/kinds.h"
#include "base/clock.h"
#include "node/containers/container_env.h"
#include "node/containers/cri_state.h"
#include "node/pods/pod_plan.h"

namespace berth::node {

struct WaitingReason {
  std::string reason;  // "CrashLoopBackOff", "ImagePullBackOff", "CreateContainerConfigError", ...
  std::string message;
};

struct PodStatusInput {
  const api::Pod& pod;
  const PodRuntime& runtime;
  const PodFacts& facts;
  const HealthOf& health;
  // Why containers do not run, by container name. The reason under "" is for every container that
  // has none of its own.
  const std::map<std::string, WaitingReason>& waiting;
  // The messages that exited containers left, by container id.
  const std::map<ContainerId, std::string>& messages;
  std::string ended_phase;  // "Succeeded" or "Failed" if the pod has ended for good; else ""
  std::string ended_reason;
  std::string ended_message;
  // True if no container will run again. The phase then comes from the exit codes, even with
  // restartPolicy Always.
  bool terminating = false;
};

// Returns the members of pod.status that the node agent writes. The conditions have no times yet;
// MergePodStatus adds them.
base::Json MakePodStatus(const PodStatusInput& input);

// Returns `present` (pod.status in the API) with the members of `wanted` (from MakePodStatus).
// startTime and conditions of other types stay, and so do the addresses if `wanted` has none. A
// condition whose status is the same keeps its lastTransitionTime.
base::Json MergePodStatus(const base::Json& present, const base::Json& wanted, base::WallTime now);

// The merge patch that turns `present` into `merged`: the top-level members that differ. Empty if
// there is nothing to write.
base::Json MakeStatusPatch(const base::Json& present, const base::Json& merged);

}  // namespace berth::node
