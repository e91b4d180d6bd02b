#include "node/pods/pod_worker.h"

#include <algorithm>

#include "api/time.h"
#include "base/log.h"
#include "node/pods/log_rotation.h"

namespace berth::node {

namespace {

namespace cri = rpc::cri;
using base::EventType;
using base::Status;
using base::StatusCode;
using std::chrono::milliseconds;

}  // namespace

PodWorker::Outcome PodWorker::SyncPod(PodEntry& entry) {
  if (entry.finished) return Outcome::Done();
  if (entry.gone || entry.pod->deleting()) return teardown_.RemovePod(entry);
  if (!entry.record.ended_phase.empty() || entry.pod->terminated()) return teardown_.EndPod(entry);
  return RunPod(entry);
}

Status PodWorker::AcceptPod(PodEntry& entry, bool runtime_reachable) {
  PodRecord record = entry.record;
  record.pod = entry.pod;
  // If the runtime is reachable, the sandbox follows at once, so one write records both.
  record.sandbox_possible = record.sandbox_possible || runtime_reachable;
  return WriteRecord(parts_, entry, record);
}

PodWorker::Outcome PodWorker::WaitForRuntime(PodEntry& entry, const Status& why) {
  const std::string message(base::Message(why));
  const WaitingReason reason{"RuntimeUnreachable", message};
  if (parts_.runtime.Pod(entry.uid).empty()) entry.waiting[""] = reason;
  parts_.events.Record(entry.pod->reference(), EventType::kWarning, "RuntimeUnreachable",
                       message + "; the pod continues when the runtime is reachable");
  PublishStatus(parts_, entry);
  return Outcome::Done();
}

// A state that the runtime cannot tell is neither a success nor a failure of the pod, so nothing is
// decided.
PodWorker::Outcome PodWorker::WaitForState(const PodEntry& entry, const std::string& unread) {
  const Status why =
      base::Error(StatusCode::kUnavailable,
                  "the container runtime cannot tell {}; the pod waits until it can", unread);
  parts_.events.Record(entry.pod->reference(), EventType::kWarning, "ContainerStatusUnknown",
                       base::Message(why));
  parts_.runtime.ListSoon();
  return Outcome::Retry(why);
}

std::optional<milliseconds> PodWorker::DeadlineLeft(const api::Pod& pod) const {
  const int64_t seconds =
      std::min<int64_t>(pod.Int({"spec", "activeDeadlineSeconds"}, -1), INT32_MAX);
  const auto start = api::ParseTime(pod.String({"status", "startTime"}));
  if (seconds < 0) return std::nullopt;
  if (!start.ok()) return milliseconds(seconds * 1000);
  return std::chrono::ceil<milliseconds>(*start + std::chrono::seconds(seconds) -
                                         parts_.clock.Now());
}

PodWorker::Outcome PodWorker::EndPod(PodEntry& entry, std::string phase, std::string reason,
                                     std::string message) {
  PodRecord record = entry.record;
  record.ended_phase = std::move(phase);
  record.ended_reason = std::move(reason);
  record.ended_message = std::move(message);
  // The end is durable first: otherwise, after a crash, the pod would start again because its
  // containers were removed.
  if (const Status recorded = WriteRecord(parts_, entry, record); !recorded.ok()) {
    return Outcome::Retry(recorded);
  }
  return teardown_.EndPod(entry);
}

PodWorker::Outcome PodWorker::RunPod(PodEntry& entry) {
  const api::Pod& pod = *entry.pod;
  // Known is read before Reachable, because Reachable has no result before Known is true.
  const bool known = parts_.runtime.IsKnown();
  const Status reachable = parts_.runtime.Reachable();
  entry.waiting.clear();
  if (const Status accepted = AcceptPod(entry, reachable.ok()); !accepted.ok()) {
    entry.waiting[""] = {"ContainerCreating", std::string(base::Message(accepted))};
    PublishStatus(parts_, entry);
    return Outcome::Retry(accepted);
  }
  WantVolumes(parts_, entry);
  if (!known) return Outcome::Done();  // OnReachable queues the pod again
  if (!reachable.ok()) return WaitForRuntime(entry, reachable);

  const auto deadline = DeadlineLeft(pod);
  if (deadline.has_value() && deadline->count() <= 0) {
    return EndPod(entry, "Failed", "DeadlineExceeded",
                  "Pod was active on the node longer than the specified deadline");
  }
  const PodRuntime runtime = parts_.runtime.Pod(entry.uid);
  if (const std::string unread = runtime.Unread(); !unread.empty())
    return WaitForState(entry, unread);
  const HealthOf health = [&](const ContainerId& id) { return HealthOfContainer(parts_, id); };
  const PodPlan plan = MakePlan(pod, runtime, health);
  if (!plan.ended_phase.empty()) return EndPod(entry, plan.ended_phase, "", plan.ended_message);

  Outcome outcome = Outcome::Done();
  if (const Status cleared = ClearRuntime(entry, plan, runtime); !cleared.ok()) {
    outcome = Outcome::Retry(cleared);
  } else if (!plan.starts.empty()) {
    outcome = StartContainers(entry, plan);
  } else if (!plan.sandbox_id.empty()) {
    // After a restart the agent does not know whether the volumes are in the sandbox.
    const Status placed = PlaceVolumes(entry, plan.sandbox_id);
    if (!placed.ok()) outcome = Outcome::Retry(placed);
  }
  FollowProbes(entry);
  CollectGarbage(entry);
  PublishStatus(parts_, entry);
  if (deadline.has_value() && outcome.status.ok() &&
      (outcome.delay.count() < 0 || outcome.delay > *deadline)) {
    outcome.delay = *deadline;
  }
  return outcome;
}

Status PodWorker::ClearRuntime(PodEntry& entry, const PodPlan& plan, const PodRuntime& runtime) {
  for (const ContainerStop& stop : plan.stops) {
    if (const ContainerState* container = runtime.ById(stop.id); container != nullptr) {
      parts_.stopper.StopContainer(*entry.pod, *container, entry.pod->termination_grace_seconds(),
                                   stop.why);
    }
  }
  for (const SandboxId& id : plan.stop_sandboxes) {
    cri::StopPodSandboxRequest stop;
    stop.set_pod_sandbox_id(id.text());
    const auto stopped = parts_.cri.StopPodSandbox(stop, kRuntimeCallTimeout);
    if (!IsGone(base::AsStatus(stopped))) return base::AsStatus(stopped);
    RETURN_IF_ERROR(parts_.sandbox_volumes.UnpublishVolumes(*entry.pod, id));
    RETURN_IF_ERROR(RemoveSandbox(parts_, *entry.pod, id));
  }
  for (const ContainerId& id : plan.remove_containers) {
    RETURN_IF_ERROR(RemoveContainer(parts_, *entry.pod, id));
  }
  return base::OkStatus();
}

void PodWorker::WaitForVolumes(PodEntry& entry, const PodVolumes& volumes) {
  const bool init = !entry.pod->init_containers().empty();
  entry.waiting[""] = {init ? "PodInitializing" : "ContainerCreating", volumes.reason};
}

// Unmounts the pod's deferred volumes in its dead sandboxes, and mounts them in `sandbox_id`.
Status PodWorker::PlaceVolumes(PodEntry& entry, const SandboxId& sandbox_id) {
  if (!MayDefer(*entry.pod) || entry.placed_in == sandbox_id) return base::OkStatus();
  for (const SandboxState& other : parts_.runtime.Pod(entry.uid).sandboxes) {
    if (other.id == sandbox_id || other.ready) continue;
    RETURN_IF_ERROR(parts_.sandbox_volumes.UnpublishVolumes(*entry.pod, other.id));
  }
  if (const Status placed = parts_.sandbox_volumes.PublishVolumes(*entry.pod, sandbox_id);
      !placed.ok()) {
    if (placed.code() != StatusCode::kCancelled) {
      entry.waiting[""] = {"ContainerCreating", std::string(base::Message(placed))};
    }
    return placed;
  }
  entry.placed_in = sandbox_id;
  return base::OkStatus();
}

PodWorker::Outcome PodWorker::StartContainers(PodEntry& entry, const PodPlan& plan) {
  PodVolumes volumes = parts_.volumes.State(entry.uid);
  if (volumes.no_room) {
    // The pod's controller makes another pod, which the scheduler places on a node with room.
    return EndPod(entry, "Failed", "VolumeAttachmentLimitExceeded", volumes.reason);
  }
  if (!volumes.ready) {
    starter_.PrefetchImages(entry);
    WaitForVolumes(entry, volumes);
    // The volume manager calls on_change when the volumes are ready. The sandbox need not wait for
    // the last mount, unless the sandbox itself may mount volumes.
    if (!volumes.begun || !plan.needs_sandbox || MayDefer(*entry.pod)) return Outcome::Done();
  }
  SandboxId sandbox_id = plan.sandbox_id;
  if (plan.needs_sandbox) {
    auto started = starter_.StartSandbox(entry, plan.sandbox_attempt);
    if (started.status().code() == StatusCode::kCancelled) return Outcome::Retry(started.status());
    if (!started.ok()) {
      const std::string message =
          fmt::format("Failed to create pod sandbox: {}", base::Message(started.status()));
      entry.waiting[""] = {"ContainerCreating", message};
      parts_.events.Record(entry.pod->reference(), EventType::kWarning, "FailedCreatePodSandBox",
                           message);
      return Outcome::Retry(base::Annotate(started.status(), "create the pod's sandbox"));
    }
    sandbox_id = *std::move(started);
  }
  if (!volumes.ready) {
    volumes = parts_.volumes.State(entry.uid);
    if (!volumes.ready) {
      WaitForVolumes(entry, volumes);
      return Outcome::Done();
    }
    entry.waiting.clear();
  }
  SandboxState sandbox;
  for (const SandboxState& candidate : parts_.runtime.Pod(entry.uid).sandboxes) {
    if (candidate.id == sandbox_id) sandbox = candidate;
  }
  if (sandbox.id.empty()) {  // the sandbox died within the last milliseconds
    return Outcome::Retry(
        base::Error(StatusCode::kUnavailable, "the pod's sandbox ended right after its start"));
  }
  if (const Status placed = PlaceVolumes(entry, sandbox.id); !placed.ok()) {
    return Outcome::Retry(placed);
  }
  Outcome outcome = Outcome::Done();
  for (const ContainerStart& start : plan.starts) {
    const PodStarter::Result result = starter_.StartContainer(entry, start, sandbox);
    if (!result.status.ok()) outcome.status = result.status;
    if (result.wait.count() > 0 && (outcome.delay.count() < 0 || result.wait < outcome.delay)) {
      outcome.delay = result.wait;
    }
  }
  return outcome;
}

void PodWorker::FollowProbes(const PodEntry& entry) {
  const PodRuntime runtime = parts_.runtime.Pod(entry.uid);
  const PodFacts facts = FactsOf(parts_, *entry.pod, runtime);
  std::set<ContainerId> running;
  for (const ContainerState& container : runtime.containers) {
    if (!container.running()) continue;
    running.insert(container.id);
    const auto spec = FindContainer(*entry.pod, container.name);
    if (spec.has_value()) {
      parts_.probes.FollowContainer(*entry.pod, *spec, container.id,
                                    facts.pod_ips.empty() ? facts.host_ip : facts.pod_ips[0]);
    }
  }
  parts_.probes.RetainContainers(api::PodUid(entry.uid), running);
}

void PodWorker::CollectGarbage(const PodEntry& entry) {
  const PodRuntime runtime = parts_.runtime.Pod(entry.uid);
  const PodGarbage garbage = FindGarbage(runtime);
  if (garbage.containers.empty() && garbage.sandboxes.empty()) return;
  parts_.tasks.RunTask("garbage/" + entry.uid, entry.pod->ns(),
                       [&parts = parts_, pod = entry.pod, garbage, runtime](std::stop_token stop) {
                         for (const ContainerId& id : garbage.containers) {
                           if (stop.stop_requested()) return;
                           if (!RemoveContainer(parts, *pod, id).ok()) continue;
                           const ContainerState* container = runtime.ById(id);
                           if (!container->log_path.empty()) RemoveLogs(container->log_path);
                         }
                         for (const SandboxId& id : garbage.sandboxes) {
                           if (stop.stop_requested()) return;
                           (void)RemoveSandbox(parts, *pod, id);  // the next collection tries again
                         }
                       });
}

}  // namespace berth::node
