// Sets up the volumes that the pods of this node want, and tears down those that no pod wants any
// more.
//
//   WantVolumes ──▶ looked up ──▶ attached ──▶ [record] MountDevice ──▶ [record] SetUp ──▶ ready:
//                                                                             containers may start
//
//   ReleaseVolumes ──▶ [record] TearDown ──▶ the last pod's: [record] UnmountDevice ──▶ detachable
//
//   [record] is a durable record under <data>/node/volumes, written before the step that it names.
//
// Each volume has a serial queue of its own (volume_units.h), so a volume that hangs does not delay
// the others. After a restart the records are compared with the mount table. The volumes of pods
// that no longer exist stay until ReleaseVolumes is called, because containers of these pods may
// still run. status.volumesInUse names a device from before it is mounted until after it is
// unmounted, because the attach/detach controller detaches volumes that are not named there
// (docs/design.md, rule 8). If a TearDown has an unknown outcome, no other pod gets the volume
// (docs/design.md, rule 3).
//
// A step that fails is repeated after a backoff, and State() says why the pod waits, so no call
// here fails because of a volume. Thread-safe; no call waits for a volume.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"
#include "base/event_sink.h"
#include "base/metrics.h"
#include "base/status.h"
#include "kube/client.h"
#include "kube/informers/informers.h"
#include "rpc/cri_ids.h"
#include "volume/host.h"
#include "volume/plugin_registry.h"
#include "volume/volume_plugin.h"

namespace berth::base {
class FlightRecorder;
}

namespace berth::node {

struct PodVolumes {
  // True when every volume of the pod is set up.
  bool ready = false;
  // True if the volumes are not ready yet, but the claims and attachments that they wait for are
  // there, and no step has failed. The pod's sandbox may be made now, because the volumes will be
  // ready soon.
  bool begun = false;
  // By pod volume name.
  std::map<std::string, volume::Published> published;
  // A volume cannot be attached because the node has no room for more volumes, and its driver keeps
  // the scheduler informed of that (CSIDriver.spec.nodeAllocatableUpdatePeriodSeconds). The pod
  // must be scheduled again, to another node.
  bool no_room = false;
  // While not ready: why, for the pod's status, as "volume 'data': claim 'x' does not exist". Else
  // "".
  std::string reason;
};

// A volume of a pod whose mount is left to the runtime handler of the pod's sandbox.
struct DeferredVolume {
  std::string name;    // the pod's name for the volume
  std::string socket;  // of the runtime handler
  std::string target;  // where it would be mounted on the host
  bool read_only = false;
  volume::DeferredMount mount;
};

class VolumeManager {
 public:
  virtual ~VolumeManager() = default;

  // Reads the records, compares them with the node, and starts the workers. Errors: the records,
  // the mount table or what a plugin keeps on the node cannot be read. `on_change` is called from
  // any thread when the state of a pod's volumes has changed.
  virtual base::Status Start(std::function<void(const std::string& pod_uid)> on_change) = 0;
  virtual void Stop() = 0;

  // Sets up the pod's volumes; called again after each change of the pod. Returns quickly.
  virtual void WantVolumes(std::shared_ptr<const api::Pod> pod) = 0;
  // Tears down the pod's volumes. Called when no container of the pod runs any more.
  virtual void ReleaseVolumes(const std::string& pod_uid) = 0;
  // True when nothing of the pod's volumes is left: the pod's folder and object may be deleted.
  virtual bool HasReleased(const std::string& pod_uid) const = 0;

  virtual PodVolumes State(const std::string& pod_uid) const = 0;
  // The uids of the pods that have volumes here or in the records, also if the API does not know
  // them any more. The volumes of such a pod are not torn down before ReleaseVolumes, because its
  // containers may still run. Pods of HostMounts are not included.
  virtual std::vector<std::string> KnownPods() const = 0;

  // The deferred volumes of the pod that are set up or not yet torn down, as recorded. Works also
  // for a pod that does not want them any more.
  virtual std::vector<DeferredVolume> Deferred(const std::string& /*pod_uid*/) const { return {}; }
  // Notes that the pod's deferred volumes are mounted in that sandbox. From now on the runtime
  // handler can be asked about them.
  virtual void NoteSandbox(const api::PodUid& /*pod*/, const rpc::SandboxId& /*sandbox*/) {}

  // A CSI driver was registered: volumes that may wait for it are tried at once, and not at the end
  // of their backoff.
  virtual void DriverRegistered(const std::string& /*driver*/) {}

  // A plugin that a prober found became ready, failed or is gone: pods that want volumes of it, and
  // those whose volumes have no plugin yet, are looked up again.
  virtual void PluginChanged(const std::string& /*plugin*/) {}

  // For host_mounts.h, whose volumes belong to pods that are never run (host_mount_pod.h). The
  // listener gets the changes of these pods in place of `on_change`; set it before Start.
  // KnownHostMountPods is KnownPods for these pods.
  virtual void OnHostMountChange(std::function<void(const std::string& pod_uid)> /*listener*/) {}
  virtual std::vector<std::string> KnownHostMountPods() const { return {}; }
};

struct VolumeManagerOptions {
  std::string state_folder;  // "<data>/node/volumes"; made if missing
  std::string node_name;
  // A pod in a sandbox of its own may write to a volume only if no second pod of the node can mount
  // it (its claim is ReadWriteOncePod). True: any other volume is not mounted; false: it is
  // mounted, and an event warns of it.
  bool refuse_shared_sandbox_writers = false;
  int workers = 8;  // volumes that are worked on at the same time
  // The limit of workers, with those that are started while others hang in the kernel or in a
  // driver.
  int max_workers = 64;
  // Backoff of a failed step, doubling.
  std::chrono::milliseconds retry_start{500};
  std::chrono::milliseconds retry_max{122'000};
  // How often volumes that follow API objects are compared with these objects, even if no change
  // was seen.
  std::chrono::milliseconds refresh_interval{60'000};
  // A pod that waits longer than this, without a failure, gets an event with the reason.
  std::chrono::milliseconds wait_event_after{10'000};
  // How often drivers are asked for the condition of volumes (volume_health.h).
  std::chrono::milliseconds health_interval{60'000};
  base::FlightRecorder* flight = nullptr;  // borrowed; key "volumes UNIT"
  base::Metrics* metrics = nullptr;        // borrowed; none: no metrics
};

// Everything but the options is borrowed and must outlive the manager. Call it before `informers`
// start, because it adds handlers to them.
std::unique_ptr<VolumeManager> NewVolumeManager(VolumeManagerOptions options, kube::Client& client,
                                                kube::Informers& informers,
                                                volume::PluginRegistry& plugins, volume::Host& host,
                                                base::EventSink& events);

}  // namespace berth::node
