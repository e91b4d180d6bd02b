// Mounts a pod's deferred volumes in its sandbox through its runtime handler (KEP-2857), and
// unmounts them there.
//
//   start ─▶ volumes ready ─▶ plan file ─▶ RunPodSandbox ─▶ RuntimePublishVolume ─▶ containers
//   end ───▶ StopPodSandbox ─▶ RuntimeUnpublishVolume ─▶ volumes released ─▶ plan file gone
//
// berth-oci reads from the plan file (base/ipc/crust_call.h) which volumes are deferred. The file
// is written before RunPodSandbox, because berth-oci needs it during that call, while the pod's
// queue is busy. Every call is idempotent, and is repeated after a restart of the agent.
// Thread-safe for different pods; blocks, with deadlines.
#pragma once

#include <string>

#include "base/event_sink.h"
#include "base/status.h"
#include "node/volumes/crust_decision.h"
#include "node/volumes/volume_manager.h"
#include "rpc/cri_ids.h"

namespace berth::node {

class PodSandboxVolumes {
 public:
  // `run_folder` is the folder of the plan files (crust_call.h). The references are borrowed.
  PodSandboxVolumes(std::string run_folder, VolumeManager& volumes, base::EventSink& events)
      : run_folder_(std::move(run_folder)), volumes_(volumes), events_(events) {}

  // Writes the plan file, or removes it if the pod has no deferred volumes. Call it before
  // RunPodSandbox. If the pod may have deferred volumes (MayDefer), all its volumes must be ready.
  base::Status WritePlan(const api::Pod& pod) const;
  // Call it when the pod's sandboxes and volumes are gone from the node.
  base::Status RemovePlan(const api::Pod& pod) const;

  // Asks the handler to mount the pod's deferred volumes in that sandbox, and then tells the volume
  // manager the sandbox. A failure is also reported to the pod in an event. DEADLINE_EXCEEDED,
  // ABORTED: the handler still works; call it again.
  base::Status PublishVolumes(const api::Pod& pod, const rpc::SandboxId& sandbox_id) const;
  // Asks the handler to unmount the pod's deferred volumes in a stopped sandbox. An empty id means
  // any sandbox of the pod, and is passed if the runtime knows none. OK also if the handler does
  // not know the sandbox.
  base::Status UnpublishVolumes(const api::Pod& pod, const rpc::SandboxId& sandbox_id) const;

 private:
  const std::string run_folder_;
  VolumeManager& volumes_;
  base::EventSink& events_;
};

}  // namespace berth::node
