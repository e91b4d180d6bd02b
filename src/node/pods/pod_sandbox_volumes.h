// Mounts a pod's deferred volumes in its sandbox through its runtime handler (KEP-2857), and takes
// them out again.
//
//   start ─▶ volumes ready ─▶ plan file ─▶ RunPodSandbox ─▶ RuntimePublishVolume ─▶ containers
//   end ───▶ StopPodSandbox ─▶ RuntimeUnpublishVolume ─▶ volumes released ─▶ plan file gone
//
// berth-oci reads in the plan file (base/ipc/crust_call.h) which volumes are deferred. The file is
// written before RunPodSandbox, because berth-oci needs it during that call, while the pod's queue
// is busy. Every call is idempotent and repeated after a restart. Thread-safe for different pods;
// blocks, with deadlines.
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
  // `run_folder` holds the plan files (crust_call.h). The others are borrowed.
  PodSandboxVolumes(std::string run_folder, VolumeManager& volumes, base::EventSink& events)
      : run_folder_(std::move(run_folder)), volumes_(volumes), events_(events) {}

  // Called before RunPodSandbox. If the pod may have deferred volumes, all its volumes must be
  // ready.
  base::Status WritePlan(const api::Pod& pod) const;
  // Called when the pod's sandboxes and volumes are gone from the node.
  base::Status RemovePlan(const api::Pod& pod) const;

  // Asks the handler to mount the volumes in that sandbox, and tells the volume manager.
  base::Status Publish(const api::Pod& pod, const rpc::SandboxId& sandbox_id) const;
  // Asks the handler to take the volumes out of a stopped sandbox. An empty id means any sandbox of
  // the pod, and is passed if the runtime knows none. OK also if the handler does not know the
  // sandbox.
  base::Status Unpublish(const api::Pod& pod, const rpc::SandboxId& sandbox_id) const;

 private:
  const std::string run_folder_;
  VolumeManager& volumes_;
  base::EventSink& events_;
};

}  // namespace berth::node
