// Ends pods: those whose containers have all ended for good, and those that are deleted.
//
//   ended    stop what is left (sidecars) ─▶ StopPodSandbox ─▶ release volumes
//            (the rest stays, for its logs)
//   deleted  stop containers (preStop, grace) ─▶ StopPodSandbox ─▶ RemovePodSandbox
//            ─▶ release volumes ─▶ remove folder and logs ─▶ drop the record
//            ─▶ final status ─▶ DELETE the pod
//
// Each call does the steps that are possible now; the pod is queued again when something has
// changed. Volumes are released only when the runtime says that no container is left. Not
// thread-safe for one pod.
#pragma once

#include "base/workers/keyed_workers.h"
#include "node/pods/pod_parts.h"

namespace berth::node {

class PodTeardown {
 public:
  using Outcome = base::KeyedWorkers::Outcome;
  explicit PodTeardown(const PodParts& parts) : parts_(parts) {}

  // The next steps for a pod that has ended for good, and for a deleted pod. entry.finished is true
  // once nothing of a deleted pod is left.
  Outcome EndPod(PodEntry& entry);
  Outcome RemovePod(PodEntry& entry);

 private:
  // Whether the runtime may have parts of the pod.
  bool MayRun(const PodEntry& entry, const PodRuntime& runtime) const;
  // Begins to stop the running containers, in the background. True if none runs any more.
  bool StopContainers(PodEntry& entry, const PodRuntime& runtime, int64_t grace_seconds);
  // Stops the pod's sandboxes and unmounts its deferred volumes in them.
  base::Status StopSandboxes(const PodEntry& entry, const PodRuntime& runtime);
  // Removes the pod's sandboxes and containers. UNAVAILABLE: the runtime still has some of them.
  base::Status RemoveFromRuntime(PodEntry& entry);
  base::Status RemoveFiles(const PodEntry& entry);
  base::Status DeleteFromApi(PodEntry& entry);

  const PodParts& parts_;
};

}  // namespace berth::node
