#include "node/pods/pod_teardown.h"

#include "base/fault.h"
#include "base/log.h"
#include "node/containers/cri_labels.h"
#include "node/containers/pod_sandbox_config.h"
#include "platform/files/durable_file.h"

namespace berth::node {

namespace {

namespace cri = rpc::cri;
using base::Status;
using base::StatusCode;
using std::chrono::milliseconds;

// How long the containers of a deleted pod may take to end.
int64_t GraceSeconds(const api::Pod& pod) {
  return pod.Int({"metadata", "deletionGracePeriodSeconds"}, pod.termination_grace_seconds());
}

// A pod object for a pod that only the runtime knows, with just enough to stop it.
std::shared_ptr<const api::Pod> PodOfRuntime(const PodRuntime& runtime) {
  api::Pod pod(base::Json{{"apiVersion", "v1"}, {"kind", "Pod"}});
  pod.set_name(runtime.name);
  pod.set_ns(runtime.ns);
  pod.Set({"metadata", "uid"}, runtime.uid);
  return std::make_shared<const api::Pod>(std::move(pod));
}

}  // namespace

bool PodTeardown::MayRun(const PodEntry& entry, const PodRuntime& runtime) const {
  if (entry.record.sandbox_possible || !runtime.empty()) return true;
  // The record is written before a volume of the pod exists. So the record of a pod that has
  // volumes but no record was lost, and the runtime may have parts of that pod.
  return entry.record.pod == nullptr && !parts_.volumes.HasReleased(entry.uid);
}

bool PodTeardown::StopContainers(PodEntry& entry, const PodRuntime& runtime,
                                 int64_t grace_seconds) {
  bool all_ended = true;
  for (const ContainerState& container : runtime.containers) {
    if (!container.running()) continue;
    all_ended = false;
    parts_.stopper.StopContainer(*entry.pod, container, grace_seconds,
                                 fmt::format("Stopping container {}", container.name));
  }
  return all_ended;
}

Status PodTeardown::StopSandboxes(const PodEntry& entry, const PodRuntime& runtime) {
  for (SandboxState sandbox : runtime.sandboxes) {
    if (!sandbox.ready) continue;
    cri::StopPodSandboxRequest request;
    request.set_pod_sandbox_id(sandbox.id.text());
    const auto stopped = parts_.cri.StopPodSandbox(request, kRuntimeCallTimeout);
    if (!IsGone(base::AsStatus(stopped))) return base::AsStatus(stopped);
    sandbox.ready = false;
    parts_.runtime.PutSandbox(api::PodUid(entry.uid), runtime.ns, runtime.name, sandbox);
  }
  for (const SandboxState& sandbox : runtime.sandboxes) {
    RETURN_IF_ERROR(parts_.sandbox_volumes.UnpublishVolumes(*entry.pod, sandbox.id));
  }
  // The handler may still have a sandbox that the runtime does not know any more.
  if (runtime.sandboxes.empty())
    return parts_.sandbox_volumes.UnpublishVolumes(*entry.pod, SandboxId());
  return base::OkStatus();
}

Status PodTeardown::RemoveFromRuntime(PodEntry& entry) {
  const PodRuntime runtime = parts_.runtime.Pod(entry.uid);
  RETURN_IF_ERROR(StopSandboxes(entry, runtime));
  for (const SandboxState& sandbox : runtime.sandboxes) {
    RETURN_IF_ERROR(RemoveSandbox(parts_, *entry.pod, sandbox.id));
  }
  for (const ContainerState& container : parts_.runtime.Pod(entry.uid).containers) {
    RETURN_IF_ERROR(RemoveContainer(parts_, *entry.pod, container.id));  // its sandbox is gone
  }
  // The runtime is read again before the volumes are released, because a sandbox whose start had an
  // unknown outcome may have appeared.
  RETURN_IF_ERROR(parts_.runtime.Refresh(entry.uid));
  if (!parts_.runtime.Pod(entry.uid).empty()) {
    return base::Error(StatusCode::kUnavailable,
                       "the container runtime still has parts of pod '{}'", entry.uid);
  }
  return base::OkStatus();
}

Status PodTeardown::RemoveFiles(const PodEntry& entry) {
  RETURN_IF_ERROR_WITH(platform::RemoveTree(parts_.paths.Pod(entry.uid)),
                       "remove the pod's folder");
  RETURN_IF_ERROR(parts_.sandbox_volumes.RemovePlan(*entry.pod));
  if (entry.pod->name().empty()) return base::OkStatus();
  return base::Annotate(platform::RemoveTree(PodLogFolder(parts_.settings.log_folder, *entry.pod)),
                        "remove the pod's logs");
}

Status PodTeardown::DeleteFromApi(PodEntry& entry) {
  if (entry.gone) return base::OkStatus();
  const api::Pod& pod = *entry.pod;
  if (!entry.final_status.is_null()) {
    RETURN_IF_ERROR(parts_.statuses.WriteStatus(pod, entry.final_status));
  }
  RETURN_IF_ERROR(base::FaultPoint<"node.pod_delete.before">());
  const Status deleted = parts_.client.Delete(api::Pod::kInfo, pod.ns(), pod.name(),
                                              {.grace_period_seconds = 0, .uid = pod.uid()});
  // ABORTED: another pod has the name by now.
  if (deleted.code() == StatusCode::kNotFound || deleted.code() == StatusCode::kAborted) {
    return base::OkStatus();
  }
  return base::Annotate(deleted, fmt::format("delete pod '{}'", pod.key()));
}

PodTeardown::Outcome PodTeardown::RemovePod(PodEntry& entry) {
  const PodRuntime runtime = parts_.runtime.Pod(entry.uid);
  if (entry.pod == nullptr) entry.pod = PodOfRuntime(runtime);
  const bool may_run = MayRun(entry, runtime);
  if (may_run) {
    if (!parts_.runtime.IsKnown()) return Outcome::Done();  // OnReachable queues the pod again
    if (const Status reachable = parts_.runtime.Reachable(); !reachable.ok()) {
      // The pod's containers may still run, so its volumes stay. The tear-down continues when the
      // runtime is reachable again.
      entry.waiting = {{"", {"RuntimeUnreachable", std::string(base::Message(reachable))}}};
      PublishStatus(parts_, entry);
      return Outcome::Done();
    }
    if (!StopContainers(entry, runtime, GraceSeconds(*entry.pod))) {
      PublishStatus(parts_, entry);
      return Outcome::Done();
    }
  }
  entry.waiting.clear();
  if (!entry.gone && entry.final_status.is_null()) {
    entry.final_status = MakeCurrentStatus(parts_, entry, runtime, true);
  }
  parts_.probes.RetainContainers(api::PodUid(entry.uid), {});
  if (may_run) {
    if (const Status removed = RemoveFromRuntime(entry); !removed.ok())
      return Outcome::Retry(removed);
  }
  ReleaseVolumes(parts_, entry);
  // on_change queues the pod again when its volumes are released.
  if (!parts_.volumes.HasReleased(entry.uid)) return Outcome::Done();
  Status status = RemoveFiles(entry);
  // The API object is deleted last. So when the pod is gone from the API, nothing of it is left on
  // the node.
  if (status.ok()) status = parts_.records.Remove(entry.uid);
  if (status.ok()) status = DeleteFromApi(entry);
  if (!status.ok()) return Outcome::Retry(status);
  parts_.statuses.DropStatus(entry.uid);
  parts_.images.ForgetPod(entry.uid);
  entry.finished = true;
  LOG_INFO("pod {} is gone from this node", base::Quote(entry.pod->key()));
  return Outcome::Done();
}

PodTeardown::Outcome PodTeardown::EndPod(PodEntry& entry) {
  entry.waiting.clear();
  const PodRuntime runtime = parts_.runtime.Pod(entry.uid);
  if (MayRun(entry, runtime)) {
    // The pod's containers may run while the runtime is unreachable. OnReachable queues the pod
    // again.
    if (!parts_.runtime.Reachable().ok()) return Outcome::Done();
    if (!StopContainers(entry, runtime, entry.pod->termination_grace_seconds())) {
      PublishStatus(parts_, entry);
      return Outcome::Done();
    }
    if (const Status stopped = StopSandboxes(entry, runtime); !stopped.ok()) {
      return Outcome::Retry(stopped);
    }
  }
  parts_.probes.RetainContainers(api::PodUid(entry.uid), {});
  ReleaseVolumes(parts_, entry);
  // A pod that ended before this agent recorded it already has its status, and perhaps no
  // containers.
  if (!entry.record.ended_phase.empty()) PublishStatus(parts_, entry);
  return Outcome::Done();
}

}  // namespace berth::node
