// Starts sandboxes and containers: the steps of a pod's start that change the container runtime.
//
//   record ─▶ log folder ─▶ RunPodSandbox ─▶ /etc/hosts ─▶ image ─▶ CreateContainer
//          ─▶ StartContainer
//
// No step waits for the API or for a list of the runtime, because ids and states come from the
// runtime's answers, and statuses and events are written in the background. Not thread-safe for one
// pod.
#pragma once

#include <chrono>
#include <string>

#include "node/pods/pod_parts.h"
#include "node/pods/pod_plan.h"

namespace berth::node {

class PodStarter {
 public:
  explicit PodStarter(const PodParts& parts) : parts_(parts) {}

  // Writes the plan file, starts a new sandbox with that attempt number and returns its id. The
  // pod's record must already say that a sandbox may exist.
  base::StatusOr<SandboxId> StartSandbox(PodEntry& entry, uint32_t attempt);

  // The outcome of a start. `status` is a failure, which is retried after a backoff. `wait` is the
  // time for which a back-off delays the start. If neither is set, the container runs or its image
  // is being pulled. entry.waiting says why the container does not run.
  struct Result {
    base::Status status;
    std::chrono::milliseconds wait{0};
  };
  Result StartContainer(PodEntry& entry, const ContainerStart& start, const SandboxState& sandbox);

  // Begins the image pulls that the pod will need, while its volumes are being set up.
  void PrefetchImages(PodEntry& entry);

 private:
  Result CreateAndStart(PodEntry& entry, const ContainerStart& start, const SandboxState& sandbox,
                        const rpc::cri::Image& image);
  void RunPostStart(const PodEntry& entry, const ContainerState& container,
                    const api::Container& spec);
  rpc::cri::PodSandboxConfig BuildSandboxConfig(const api::Pod& pod, uint32_t attempt) const;
  // Writes an event that names the labels and annotations that the sandbox does not get.
  void ReportLeftOut(const api::Pod& pod) const;
  base::StatusOr<std::string> ReadRuntimeHandler(const api::Pod& pod) const;
  int64_t Now() const;

  const PodParts& parts_;
};

// The key in PodTasks of a container's postStart hook.
std::string PostStartTask(const ContainerId& container);

}  // namespace berth::node
