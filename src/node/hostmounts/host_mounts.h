// Mounts claims on the host itself, as HostMount objects of this node ask
// (storage.berth.dev/v1alpha1).
//
//   HostMount ─▶ finalizer ─▶ a pod that is never run wants the claim ─▶ volume ready
//             ─▶ bound at spec.path ─▶ status.phase Mounted
//   deleted   ─▶ unmounted (busy: told in status.message, and tried again) ─▶ volume released
//             ─▶ finalizer off
//
// The VolumeManager mounts the volume as it does for a pod; the uid of that pod is
// HostMountPodUid(uid). Other parts treat a HostMount as a user of its claim too: the protection
// controller keeps the claim, the scheduler chooses its node for WaitForFirstConsumer, and the
// attach/detach controller attaches its volume. Thread-safe. Make it before `informers` start, and
// start it after the VolumeManager.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/kinds/kinds.h"
#include "base/event_sink.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "kube/client.h"
#include "kube/informers/handler_gate.h"
#include "kube/informers/informers.h"
#include "node/hostmounts/host_mount_targets.h"
#include "node/volumes/volume_manager.h"
#include "volume/host.h"

namespace berth::node {

inline constexpr std::string_view kHostMountFinalizer = "storage.berth.dev/host-mount";

struct HostMountsOptions {
  std::string state_folder;  // "<data>/node/host-mounts"; made if missing
  std::string own_folder;    // "<data>": no volume is mounted in or above it
  std::string node_name;
  std::chrono::milliseconds retry_start{500};
  std::chrono::milliseconds retry_max{30'000};
  base::FlightRecorder* flight = nullptr;  // borrowed; key "host-mounts NS/NAME"
};

class HostMounts {
 public:
  // Everything but the options is borrowed and must outlive this object.
  HostMounts(HostMountsOptions options, kube::Client& client, kube::Informers& informers,
             VolumeManager& volumes, volume::Host& host, base::EventSink& events);
  ~HostMounts();

  // Reads the records and starts the workers. Call it when the informers have synced and the volume
  // manager runs. An error: the records cannot be read.
  base::Status Start();
  void Stop();
  // Waits until no HostMount has work to do now; for tests.
  bool WaitIdle(std::chrono::milliseconds timeout) { return workers_.WaitIdle(timeout); }

 private:
  using MountPtr = std::shared_ptr<const api::HostMount>;

  base::KeyedWorkers::Outcome Reconcile(const std::string& key);
  base::Status EstablishMount(const api::HostMount& mount);
  base::Status FinishMount(const api::HostMount& mount);
  // Unmounts and releases the volume of the HostMount. False: the volume is still being released;
  // the volume manager calls VolumeChanged at its end.
  base::StatusOr<bool> UndoMount(const std::string& uid);
  base::Status CleanUpForgotten(const std::string& key, const std::string& present_uid);
  void ReleaseUnknownPods();
  base::Status PutFinalizer(const api::HostMount& mount, bool present);
  base::Status SetStatus(const api::HostMount& mount, std::string_view phase,
                         std::string_view message);
  void VolumeChanged(const std::string& pod_uid);
  std::shared_ptr<const api::Pod> PodOf(const api::HostMount& mount) const;
  std::optional<HostMountRecord> RecordOf(const std::string& uid) const;
  void KeepRecord(const HostMountRecord& record);
  void ForgetMount(const std::string& uid);

  const HostMountsOptions options_;
  kube::Client& client_;
  VolumeManager& volumes_;
  volume::Host& host_;
  base::EventSink& events_;
  kube::Informer<api::HostMount>& mounts_;
  kube::Informer<api::PersistentVolumeClaim>& claims_;
  kube::HandlerGate<HostMounts> gate_;
  HostMountTargets targets_;
  mutable base::Mutex mutex_;
  std::map<std::string, HostMountRecord> records_ ABSL_GUARDED_BY(mutex_);  // by uid
  std::map<std::string, std::string> keys_ ABSL_GUARDED_BY(mutex_);  // uid → "namespace/name"
  // The pods that the volume manager was given, by uid. It calls back after every request, so each
  // change is passed to it only once.
  std::map<std::string, base::Json> wanted_ ABSL_GUARDED_BY(mutex_);
  base::KeyedWorkers workers_;
};

}  // namespace berth::node
