#include "node/pods/pod_parts.h"

#include "base/log.h"
#include "node/containers/container_message.h"
#include "node/containers/container_resources.h"
#include "node/pods/pod_starter.h"

namespace berth::node {

PodFacts FactsOf(const PodParts& parts, const api::Pod& pod, const PodRuntime& runtime) {
  PodFacts out{.node_name = parts.settings.node_name,
               .host_ip = parts.settings.host_ip(),
               .runtime_name = parts.runtime.Version().first,
               .cpu_capacity_milli = ReadMachineCpuMilli(),
               .memory_capacity = ReadMachineMemory()};
  if (runtime.sandboxes.empty()) return out;
  if (pod.host_network()) {
    if (!out.host_ip.empty()) out.pod_ips = {out.host_ip};
  } else if (runtime.sandboxes[0].ready) {
    out.pod_ips = runtime.sandboxes[0].ips;
  }
  return out;
}

ContainerHealth HealthOfContainer(const PodParts& parts, const ContainerId& container) {
  ContainerHealth out = parts.probes.Health(container);
  if (parts.tasks.IsBusy(PostStartTask(container))) out.started = false;
  if (parts.stopper.IsStopping(container)) out.ready = false;
  return out;
}

base::Json MakeCurrentStatus(const PodParts& parts, PodEntry& entry, const PodRuntime& runtime,
                             bool terminating) {
  std::map<ContainerId, std::string> messages;
  for (const ContainerState& container : runtime.containers) {
    if (!container.exited()) continue;
    const auto known = entry.messages.find(container.id);
    if (known != entry.messages.end()) {
      messages.insert(*known);
    } else if (container.detailed) {  // otherwise the path of its message is not known yet
      messages.emplace(container.id, ReadTerminationMessage(container));
    }
  }
  entry.messages = std::move(messages);
  const HealthOf health = [&](const ContainerId& id) { return HealthOfContainer(parts, id); };
  return MakePodStatus({.pod = *entry.pod,
                        .runtime = runtime,
                        .facts = FactsOf(parts, *entry.pod, runtime),
                        .health = health,
                        .waiting = entry.waiting,
                        .messages = entry.messages,
                        .ended_phase = entry.record.ended_phase,
                        .ended_reason = entry.record.ended_reason,
                        .ended_message = entry.record.ended_message,
                        .terminating = terminating});
}

void PublishStatus(const PodParts& parts, PodEntry& entry) {
  if (entry.gone || entry.pod == nullptr) return;
  parts.statuses.QueueStatus(*entry.pod,
                             MakeCurrentStatus(parts, entry, parts.runtime.Pod(entry.uid), false));
}

void WantVolumes(const PodParts& parts, PodEntry& entry) {
  if (entry.wanted_version == entry.pod->resource_version()) return;
  entry.wanted_version = entry.pod->resource_version();
  entry.released = false;
  parts.volumes.WantVolumes(entry.pod);
}

void ReleaseVolumes(const PodParts& parts, PodEntry& entry) {
  if (std::exchange(entry.released, true)) return;
  entry.wanted_version.clear();
  parts.volumes.ReleaseVolumes(entry.uid);
}

base::Status RemoveSandbox(const PodParts& parts, const api::Pod& pod, const SandboxId& sandbox) {
  rpc::cri::RemovePodSandboxRequest request;
  request.set_pod_sandbox_id(sandbox.text());
  const auto removed = parts.cri.RemovePodSandbox(request, kRuntimeCallTimeout);
  if (!IsGone(base::AsStatus(removed))) return base::AsStatus(removed);
  LOG_INFO("sandbox {} of pod {} is removed", sandbox, base::Quote(pod.key()));
  parts.runtime.RemoveSandbox(api::PodUid(pod.uid()), sandbox);
  return base::OkStatus();
}

base::Status RemoveContainer(const PodParts& parts, const api::Pod& pod,
                             const ContainerId& container) {
  rpc::cri::RemoveContainerRequest request;
  request.set_container_id(container.text());
  const auto removed = parts.cri.RemoveContainer(request, kRuntimeCallTimeout);
  if (!IsGone(base::AsStatus(removed))) return base::AsStatus(removed);
  parts.runtime.RemoveContainer(api::PodUid(pod.uid()), container);
  return base::OkStatus();
}

base::Status WriteRecord(const PodParts& parts, PodEntry& entry, const PodRecord& record) {
  const PodRecord& old = entry.record;
  if (old.pod != nullptr && old.sandbox_possible == record.sandbox_possible &&
      old.ended_phase == record.ended_phase) {
    return base::OkStatus();
  }
  RETURN_IF_ERROR(parts.records.Write(record));
  entry.record = record;
  return base::OkStatus();
}

}  // namespace berth::node
