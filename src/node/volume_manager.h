// Brings the volumes of this node's pods from what is to what is wanted, and back.
//
//   pod added ─▶ wait attach ─▶ [record] MountDevice ─▶ [record] SetUp ─▶ ready ─▶ containers may start
//   containers gone ─▶ TearDown ─▶ [drop record] ─▶ last pod? UnmountDevice ─▶ [drop record] ─▶ detach
//
// One serial queue per volume (keyed by device name, or by pod and volume name). Records under
// <data>/node/volumes are written before each act; after a restart they and the mount table are compared,
// and volumes of pods that no longer exist are torn down. status.volumesInUse holds a device before it is
// mounted and until it is unmounted (DESIGN rule 8). A volume whose TearDown has an unknown outcome is not
// given to a new pod (rule 3).
//
// Thread-safe; no call blocks on a volume.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/kinds.h"
#include "base/status.h"
#include "volume/volume_plugin.h"

namespace berth::node {

struct PodVolumes {
  // True when every volume of the pod is set up.
  bool ready = false;
  // By pod volume name.
  std::map<std::string, volume::Published> published;
  // While not ready: why, for the pod's event and condition: "volume 'data': waiting for claim 'x' to be
  // bound".
  std::string reason;
};

class VolumeManager {
 public:
  virtual ~VolumeManager() = default;

  // Reads the records, and starts to repair. `on_change` is called (from any thread) when the state of a pod's
  // volumes changed.
  virtual base::Status Start(std::function<void(const std::string& pod_uid)> on_change) = 0;
  virtual void Stop() = 0;

  // The pod is to have its volumes; again after each change of the pod. Quick.
  virtual void Want(std::shared_ptr<const api::Pod> pod) = 0;
  // No container of the pod runs any more: tear its volumes down.
  virtual void Release(const std::string& pod_uid) = 0;
  // True when nothing of the pod's volumes is left: the pod's folder and object may go.
  virtual bool Released(const std::string& pod_uid) const = 0;

  virtual PodVolumes State(const std::string& pod_uid) const = 0;
  // Pods that the records know, including those that the API has forgotten.
  virtual std::vector<std::string> KnownPods() const = 0;
};

}  // namespace berth::node
