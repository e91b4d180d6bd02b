// The objects that the pods' workers share (PodParts), and the state that a worker keeps of one pod
// (PodEntry).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "api/kinds/kinds.h"
#include "base/clock.h"
#include "base/event_sink.h"
#include "kube/client.h"
#include "node/containers/container_backoff.h"
#include "node/containers/container_config.h"
#include "node/containers/container_stop.h"
#include "node/containers/cri_state.h"
#include "node/containers/image_puller.h"
#include "node/containers/pod_tasks.h"
#include "node/pods/container_probes.h"
#include "node/pods/pod_records.h"
#include "node/pods/pod_sandbox_volumes.h"
#include "node/pods/pod_status.h"
#include "node/pods/pod_status_writer.h"
#include "node/volumes/volume_manager.h"
#include "volume/paths.h"

namespace berth::node {

// The timeout of a call that stops or removes a container or a sandbox.
inline constexpr std::chrono::milliseconds kRuntimeCallTimeout{120'000};

// Whether a call that stops or removes a container or sandbox has reached its goal. NOT_FOUND means
// that the object was gone before the call.
inline bool IsGone(const base::Status& status) {
  return status.ok() || status.code() == base::StatusCode::kNotFound;
}

struct PodSettings {
  std::string node_name;
  std::string log_folder;                // of pods' logs
  std::string agent;                     // labels::kAgent: the data folder
  std::string crust_run_folder;          // of the plans for sandboxes (pod_sandbox_volumes.h)
  std::function<std::string()> host_ip;  // the node's InternalIP; "" while it is not known
};

// All borrowed.
struct PodParts {
  const PodSettings& settings;
  const volume::Paths& paths;
  kube::Client& client;
  rpc::CriClient& cri;
  CriState& runtime;
  VolumeManager& volumes;
  const PodSandboxVolumes& sandbox_volumes;
  const PodRecords& records;
  PodStatusWriter& statuses;
  PodTasks& tasks;
  ImagePuller& images;
  ContainerConfigs& configs;
  ContainerStopper& stopper;
  ContainerProbes& probes;
  base::EventSink& events;
  const base::Clock& clock;
  const ObjectReader& reader;
  std::function<void(const std::string& pod_uid)> requeue;
};

// The state of one pod between its syncs. Only the worker that runs the pod's key may use it.
struct PodEntry {
  std::string uid;
  // The pod as the API has it, or as recorded if the API no longer has it. Null while only its uid
  // is known.
  std::shared_ptr<const api::Pod> pod;
  bool gone = false;  // the API no longer has the pod

  PodRecord record;  // record.pod is null until a record is written
  CrashBackoff backoff;
  std::map<std::string, WaitingReason> waiting;  // see PodStatusInput
  std::map<ContainerId, std::string> messages;   // see PodStatusInput
  SandboxId hosts_of;                            // the sandbox for which /etc/hosts was written
  SandboxId placed_in;                           // the sandbox that has its deferred volumes
  // The volume manager calls back after every request, so each change is passed to it only once.
  std::string wanted_version;  // resourceVersion of the pod whose volumes are wanted
  bool released = false;
  bool prefetched = false;  // image pulls were started before the volumes are ready
  base::Json final_status;  // of a deleted pod, made before its containers are removed; or null
  bool finished = false;    // nothing of the pod is left on the node
};

// The facts of a pod for its environment and status.
PodFacts FactsOf(const PodParts& parts, const api::Pod& pod, const PodRuntime& runtime);

// Makes the pod's status from what the runtime has, and gives it to the status writer. Does nothing
// if the API does not have the pod any more.
void PublishStatus(const PodParts& parts, PodEntry& entry);
// The pod's status as MakePodStatus makes it. Reads the messages of exited containers into
// entry.messages, because they are lost when the containers are removed.
base::Json MakeCurrentStatus(const PodParts& parts, PodEntry& entry, const PodRuntime& runtime,
                             bool terminating);

// The results of a container's probes and hooks. A container whose postStart hook runs is not
// started; a container that is being stopped is not ready.
ContainerHealth HealthOfContainer(const PodParts& parts, const ContainerId& container);

// Call VolumeManager::WantVolumes and ReleaseVolumes, but only once for each change of the pod.
void WantVolumes(const PodParts& parts, PodEntry& entry);
void ReleaseVolumes(const PodParts& parts, PodEntry& entry);

// Remove a sandbox or a container from the runtime and from what is known of it. OK also if it is
// gone already.
base::Status RemoveSandbox(const PodParts& parts, const api::Pod& pod, const SandboxId& sandbox);
base::Status RemoveContainer(const PodParts& parts, const api::Pod& pod,
                             const ContainerId& container);

// Writes the pod's record if there is none yet, or if sandbox_possible or ended_phase has changed.
base::Status WriteRecord(const PodParts& parts, PodEntry& entry, const PodRecord& record);

}  // namespace berth::node
