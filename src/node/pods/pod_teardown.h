// Ends pods: those whose containers have all ended for good, and those that are deleted.
//
//   ended    stop what is left (sidecars) ─▶ StopPodSandbox ─▶ release volumes
//            (the rest stays, for its logs)
//   deleted  stop containers (preStop, grace) ─▶ StopPodSandbox ─▶ RemovePodSandbox
//            ─▶ release volumes ─▶ remove folder and logs ─▶ drop the record
//            ─▶ final status ─▶ DELETE the pod
//
// Each call does what can be done now; the next comes when something changed. Volumes are released
// only when the runtime says that no container is left. Not thread-safe for one pod.
#pragma once

#include "base/keyed_workers.h"
#include "node/pods/pod_parts.h"

namespace berth::node {

class PodTeardown {
 public:
  using Outcome = base::KeyedWorkers::Outcome;
  explicit PodTeardown(const PodParts& parts) : parts_(parts) {}

  Outcome End(PodEntry& entry);
  Outcome Remove(PodEntry& entry);

 private:
  // Whether the runtime may have parts of the pod.
  bool MayRun(const PodEntry& entry, const PodRuntime& runtime) const;
  // True if no container runs any more; otherwise the stops have been started.
  bool StopContainers(PodEntry& entry, const PodRuntime& runtime, int64_t grace_seconds);
  // OK if no sandbox of the pod runs any more, and its deferred volumes are out of them.
  base::Status StopSandboxes(const PodEntry& entry, const PodRuntime& runtime);
  // OK if the runtime has nothing of the pod any more.
  base::Status RemoveFromRuntime(PodEntry& entry);
  base::Status RemoveFiles(const PodEntry& entry);
  base::Status DeleteFromApi(PodEntry& entry);

  const PodParts& parts_;
};

}  // namespace berth::node
