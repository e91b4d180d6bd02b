// Runs the pods of this node: watches them in the API, has a serial queue for each pod, and tears
// down the pods that the API does not have any more.
//
//   API (watch) ────────────┐
//   runtime (cri_state.h) ──┼──▶ one key per pod uid ──▶ PodWorker
//   volumes, image pulls ───┤
//   probes, stops ──────────┘
//
// After a restart, the manager takes over the API's pods together with their running sandboxes and
// containers. Pods that only the records, the volumes or the runtime know are torn down, once the
// API and the runtime have been listed. Sandboxes of another agent are left alone. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/clock.h"
#include "base/event_sink.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "base/workers/worker_shares.h"
#include "kube/client.h"
#include "kube/informers/handler_gate.h"
#include "kube/informers/informer.h"
#include "node/pods/log_rotation.h"
#include "node/pods/pod_parts.h"
#include "node/pods/pod_worker.h"
#include "platform/mounts/mounter.h"
#include "rpc/cri_client.h"

namespace berth::node {

struct PodManagerOptions {
  PodSettings settings;
  std::string record_folder;  // <data>/node/pods
  std::string cri_endpoint;
  CriListWaits cri_lists = {};
  // Called when the runtime becomes reachable or unreachable, with OK or the reason, and with the
  // runtime's name and version: "containerd://1.6.20".
  std::function<void(const base::Status& reachable, const std::string& version)> on_runtime =
      [](const base::Status&, const std::string&) {};
  int workers = 16;
  LogRotation::Options logs = {};
  int max_workers = 32;  // with those that are started while others hang in the runtime
};

class PodManager {
 public:
  // All references are borrowed. `pods` holds at least the pods of this node; the caller stops it
  // before it destroys the manager. Errors: the record folder cannot be made or read.
  static base::StatusOr<std::unique_ptr<PodManager>> New(
      PodManagerOptions options, const volume::Paths& paths, kube::Client& client,
      kube::Informer<api::Pod>& pods, rpc::CriClient& cri, VolumeManager& volumes,
      platform::Mounter& mounter, base::EventSink& events, const base::Clock& clock,
      ObjectReader reader);
  ~PodManager();

  // The informer may be started before or after this call.
  void Start();
  // Cancels the running calls to the runtime, and stops all threads. Containers stay as they are.
  void Stop();

  // The volumes of a pod changed (VolumeManager::Start).
  void OnVolumesChanged(const std::string& pod_uid) { RequeuePod(pod_uid); }

  // For logs and exec: the pod, what the runtime has of it (empty if nothing), and whether the
  // runtime can be reached (UNAVAILABLE if not). NOT_FOUND: no such pod is on this node.
  base::StatusOr<std::shared_ptr<const api::Pod>> FindPod(const std::string& uid) const;
  PodRuntime Runtime(const std::string& uid) const { return runtime_.Pod(uid); }
  base::Status RuntimeReachable() const { return runtime_.Reachable(); }

  // Waits until no pod has work to do now; for tests.
  bool WaitIdle(std::chrono::milliseconds timeout) { return workers_.WaitIdle(timeout); }

 private:
  struct Input {
    std::shared_ptr<const api::Pod> pod;
    bool gone = false;
  };

  PodManager(PodManagerOptions options, const volume::Paths& paths, kube::Client& client,
             kube::Informer<api::Pod>& pods, rpc::CriClient& cri, VolumeManager& volumes,
             platform::Mounter& mounter, base::EventSink& events, const base::Clock& clock,
             ObjectReader reader, std::unique_ptr<PodRecords> records,
             std::map<std::string, PodRecord> remembered);

  void OnPodChange(const kube::Informer<api::Pod>::TypedChange& change);
  void RequeuePod(const std::string& uid);
  void OnRuntimeChange(const std::string& uid);
  base::KeyedWorkers::Outcome ProcessKey(const std::string& key);
  // Queues the tear-down of pods that the node has and the API does not have. Outcome::After while
  // the informer has no first list.
  base::KeyedWorkers::Outcome FindOrphans();
  // True if the runtime has a sandbox of the pod that this agent made. A pod with such a sandbox,
  // but without an object in the API, is an orphan.
  bool HasOwnSandbox(const std::string& uid) const;
  std::vector<ContainerState> RunningContainers() const;
  PodEntry& EntryOf(const std::string& uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const PodManagerOptions options_;
  const ObjectReader reader_;
  kube::Informer<api::Pod>& pods_;
  rpc::CriClient& cri_;
  VolumeManager& volumes_;
  const std::unique_ptr<PodRecords> records_;
  CriState runtime_;
  PodTasks tasks_;
  // Pulls have a pool of their own, because a pull may take an hour, and other tasks must not wait
  // for it.
  PodTasks pulls_;
  PodStatusWriter statuses_;
  ImagePuller images_;
  ContainerConfigs configs_;
  ContainerStopper stopper_;
  ContainerProbes probes_;
  LogRotation logs_;
  const PodSandboxVolumes sandbox_volumes_;
  const PodParts parts_;
  PodWorker worker_;

  kube::HandlerGate<PodManager> gate_;
  std::atomic<bool> stopping_{false};
  mutable base::Mutex mutex_;
  std::map<std::string, Input> inputs_ ABSL_GUARDED_BY(mutex_);  // by uid
  std::map<std::string, std::unique_ptr<PodEntry>> entries_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, PodRecord> remembered_ ABSL_GUARDED_BY(mutex_);  // not yet in entries_
  base::WorkGroups namespaces_;  // of the pods, by uid; they share the workers
  base::KeyedWorkers workers_;
};

}  // namespace berth::node
