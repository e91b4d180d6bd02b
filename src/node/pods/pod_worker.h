// Brings one pod from its present state to the wanted one; called again after every change.
//
//   accept [record] ─▶ volumes wanted ─▶ begun ─▶ sandbox ─▶ volumes ready ─▶ init containers
//                   ─▶ containers, which are kept running
//   ended or deleted ─▶ pod_teardown.h
//
// Level-triggered: each call reads the present state of the API, the runtime and the volumes, does
// the steps that are possible at once, and returns. Long work runs in the background, and queues
// the pod again at its end. Not thread-safe for one pod.
#pragma once

#include <vector>

#include "base/workers/keyed_workers.h"
#include "node/pods/pod_parts.h"
#include "node/pods/pod_plan.h"
#include "node/pods/pod_starter.h"
#include "node/pods/pod_teardown.h"

namespace berth::node {

class PodWorker {
 public:
  using Outcome = base::KeyedWorkers::Outcome;
  explicit PodWorker(const PodParts& parts) : parts_(parts), starter_(parts), teardown_(parts) {}

  // Does the next steps of the pod.
  Outcome SyncPod(PodEntry& entry);

 private:
  Outcome RunPod(PodEntry& entry);
  Outcome EndPod(PodEntry& entry, std::string phase, std::string reason, std::string message);
  base::Status AcceptPod(PodEntry& entry, bool runtime_reachable);
  Outcome WaitForRuntime(PodEntry& entry, const base::Status& why);
  Outcome WaitForState(const PodEntry& entry, const std::string& unread);
  // The time that is left of spec.activeDeadlineSeconds; nullopt: the pod has no deadline.
  std::optional<std::chrono::milliseconds> DeadlineLeft(const api::Pod& pod) const;
  // Stops and removes the containers and sandboxes that the plan names.
  base::Status ClearRuntime(PodEntry& entry, const PodPlan& plan, const PodRuntime& runtime);
  static void WaitForVolumes(PodEntry& entry, const PodVolumes& volumes);
  base::Status PlaceVolumes(PodEntry& entry, const SandboxId& sandbox_id);
  Outcome StartContainers(PodEntry& entry, const PodPlan& plan);
  void FollowProbes(const PodEntry& entry);
  void CollectGarbage(const PodEntry& entry);

  const PodParts& parts_;
  PodStarter starter_;
  PodTeardown teardown_;
};

}  // namespace berth::node
