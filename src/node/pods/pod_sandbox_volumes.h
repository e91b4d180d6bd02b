// A pod's volumes that its runtime handler mounts in the sandbox (KEP-2857): when they are put in
// and taken out.
//
//   start ─▶ volumes ready ─▶ plan file ─▶ RunPodSandbox ─▶ RuntimePublishVolume ─▶ containers
//   end ───▶ StopPodSandbox ─▶ RuntimeUnpublishVolume ─▶ volumes released ─▶ plan file gone
//
// The plan (base/ipc/crust_call.h) is what berth-oci goes by: it is there before the sandbox is
// asked for, since the pod's own queue is busy with that. Every call is idempotent and repeated
// after a restart. Thread-safe for different pods; blocks, with deadlines.
#pragma once

#include <string>

#include "base/event_sink.h"
#include "base/status.h"
#include "node/volumes/crust_decision.h"
#include "node/volumes/volume_manager.h"

namespace berth::node {

class PodSandboxVolumes {
 public:
  // `run_folder`: of the plans (crust_call.h). Everything is borrowed.
  PodSandboxVolumes(std::string run_folder, VolumeManager& volumes, base::EventSink& events)
      : run_folder_(std::move(run_folder)), volumes_(volumes), events_(events) {}

  // Before RunPodSandbox. A pod that may have deferred volumes must have all of them ready.
  base::Status WritePlan(const api::Pod& pod) const;
  // Nothing of the pod is left on the node.
  base::Status RemovePlan(const api::Pod& pod) const;

  // Asks the handler to mount the volumes in that sandbox, and tells the volume manager.
  base::Status Publish(const api::Pod& pod, const SandboxId& sandbox_id) const;
  // Asks the handler to take the volumes out of a stopped sandbox; "": out of any, because the
  // runtime knows none. It is OK if the handler does not know the sandbox.
  base::Status Unpublish(const api::Pod& pod, const SandboxId& sandbox_id) const;

 private:
  const std::string run_folder_;
  VolumeManager& volumes_;
  base::EventSink& events_;
};

}  // namespace berth::node
