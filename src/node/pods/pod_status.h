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
  // By container; "" is for every container that has no own.
  const std::map<std::string, WaitingReason>& waiting;
  // The messages that exited containers left.
  const std::map<ContainerId, std::string>& messages;
  std::string ended_phase;  // set: the pod ended so, for good
  std::string ended_reason;
  std::string ended_message;
  // No container will run again: phase from the exit codes even with restartPolicy Always.
  bool terminating = false;
};

// The members that the node agent owns. Conditions carry no times: MergePodStatus gives them.
base::Json MakePodStatus(const PodStatusInput& input);

// `present` (pod.status as the API has it) with `wanted` (of MakePodStatus) laid over it: a
// condition keeps its lastTransitionTime while its status stays, conditions of others stay,
// startTime stays.
base::Json MergePodStatus(const base::Json& present, const base::Json& wanted, base::WallTime now);

// The merge patch that makes `present` into `merged`: top-level members that differ. Empty: nothing
// to write.
base::Json StatusPatch(const base::Json& present, const base::Json& merged);

}  // namespace berth::node
