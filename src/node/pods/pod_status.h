// pod.status, as the kubelet would write it. Pure.
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
  // By container name. The reason under "" is for every container that has none of its own.
  const std::map<std::string, WaitingReason>& waiting;
  // The messages that exited containers left, by container id.
  const std::map<ContainerId, std::string>& messages;
  std::string ended_phase;  // set: the pod ended so, for good
  std::string ended_reason;
  std::string ended_message;
  // True if no container will run again. The phase then comes from the exit codes, even with
  // restartPolicy Always.
  bool terminating = false;
};

// The members that the node agent owns. Conditions have no times yet; MergePodStatus adds them.
base::Json MakePodStatus(const PodStatusInput& input);

// Lays `wanted` (from MakePodStatus) over `present` (pod.status in the API). startTime and the
// conditions of others stay; a condition whose status is the same keeps its lastTransitionTime.
base::Json MergePodStatus(const base::Json& present, const base::Json& wanted, base::WallTime now);

// The merge patch that turns `present` into `merged`: the top-level members that differ. Empty if
// there is nothing to write.
base::Json StatusPatch(const base::Json& present, const base::Json& merged);

}  // namespace berth::node
