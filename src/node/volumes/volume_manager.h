// Brings the volumes of this node's pods from what is to what is wanted, and back.
//
//   WantVolumes ──▶ looked up ──▶ attached ──▶ [record] MountDevice ──▶ [record] SetUp ──▶ ready:
//                                                                             containers may start
//
//   Release ──▶ [record] TearDown ──▶ the last pod's: [record] UnmountDevice ──▶ may be detached
//
//   [record] is a durable record under <data>/node/volumes, written before the step that it names.
//
// Each volume has a serial queue of its own (volume_units.h), so that one which hangs holds up no
// other. After a restart the records are compared with the mount table; the volumes of pods that no
// longer exist stay until Release says that no container of theirs runs.
// status.volumesInUse names a device from before it is mounted until after it is unmounted, because
// the attach/detach controller detaches what is not named there (DESIGN rule 8). A volume whose
// TearDown has an unknown outcome is given to no other pod (rule 3).
//
// A step that fails is repeated with a backoff, and State() says why the pod waits: no call here
// fails because of a volume. Thread-safe; no call blocks on a volume.
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
#include "kube/informer.h"
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
  // Not ready yet, but all that volumes may have to wait for has come (claims, attachments), and no
  // step has failed: a sandbox made now is soon used.
  bool begun = false;
  // By pod volume name.
  std::map<std::string, volume::Published> published;
  // A volume cannot be attached because no more fit on the node, and its driver keeps the scheduler
  // informed of that (CSIDriver.spec.nodeAllocatableUpdatePeriodSeconds): the pod is to be placed
  // anew.
  bool no_room = false;
  // While not ready: why, for the pod's event and condition: "volume 'data': waiting for claim 'x'
  // to be bound".
  std::string reason;
};

// A volume of a pod whose mount is left to the runtime handler of the pod's sandbox.
struct DeferredVolume {
  std::string name;    // the pod's name for the volume
  std::string socket;  // the handler's
  std::string target;  // where it would be mounted on the host
  bool read_only = false;
  volume::DeferredMount mount;
};

class VolumeManager {
 public:
  virtual ~VolumeManager() = default;

  // Reads the records, and starts to repair. `on_change` is called (from any thread) when the state
  // of a pod's volumes changed.
  virtual base::Status Start(std::function<void(const std::string& pod_uid)> on_change) = 0;
  virtual void Stop() = 0;

  // Sets up the pod's volumes; called again after each change of the pod. Returns quickly.
  virtual void WantVolumes(std::shared_ptr<const api::Pod> pod) = 0;
  // Tears down the pod's volumes. Called when no container of the pod runs any more.
  virtual void Release(const std::string& pod_uid) = 0;
  // True when nothing of the pod's volumes is left: the pod's folder and object may be deleted.
  virtual bool Released(const std::string& pod_uid) const = 0;

  virtual PodVolumes State(const std::string& pod_uid) const = 0;
  // Pods that the records know, including those that the API has forgotten. Nothing of them is torn
  // down until Release says so, since their containers may still run. Host mounts are not among
  // them.
  virtual std::vector<std::string> KnownPods() const = 0;

  // The deferred volumes of the pod that are set up or not yet torn down, as recorded; also those
  // of a pod that is not wanted any more.
  virtual std::vector<DeferredVolume> Deferred(const std::string& /*pod_uid*/) const { return {}; }
  // Notes that the pod's deferred volumes are mounted in that sandbox: from now on they can grow.
  virtual void NoteSandbox(const api::PodUid& /*pod*/, const rpc::SandboxId& /*sandbox*/) {}

  // Tries the volumes that wait for a CSI driver now, not at the end of their backoff, because it
  // was registered.
  virtual void DriverRegistered(const std::string& /*driver*/) {}

  // A plugin that a prober found is ready, or failed, or is gone: pods that want volumes of it, and
  // those whose volumes have no plugin yet, are looked at anew.
  virtual void PluginChanged(const std::string& /*plugin*/) {}

  // For host_mounts.h, whose volumes belong to pods that are never run (host_mount_pod.h). The
  // callback gets their changes in place of `on_change`; set it before Start. The second method
  // gives those pods that the records know.
  virtual void OnHostMountChange(std::function<void(const std::string& pod_uid)> /*listener*/) {}
  virtual std::vector<std::string> KnownHostMountPods() const { return {}; }
};

struct VolumeManagerOptions {
  std::string state_folder;  // "<data>/node/volumes"; made if missing
  std::string node_name;
  // A pod in a sandbox of its own may write to a volume only if no second pod of the node can mount
  // it (its claim is ReadWriteOncePod). True: another volume is not mounted; false: an event warns.
  bool refuse_shared_sandbox_writers = false;
  int workers = 8;  // volumes that are worked on at the same time
  // Counts also workers that are started while others hang in the kernel or in a driver.
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
  base::Metrics* metrics = nullptr;        // borrowed; none: no figures
};

// Everything is borrowed and outlives the manager. It uses the informers of PersistentVolumeClaim,
// PersistentVolume, VolumeAttachment and Node, so it is to be made before `informers` start.
std::unique_ptr<VolumeManager> NewVolumeManager(VolumeManagerOptions options, kube::Client& client,
                                                kube::Informers& informers,
                                                volume::PluginRegistry& plugins, volume::Host& host,
                                                base::EventSink& events);

}  // namespace berth::node
