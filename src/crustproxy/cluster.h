// What the proxy reads from the Kubernetes API: which pods of its node have a runtime handler, and
// which volumes they use.
//
// It reads anew at each call, because a kubelet may ask for a pod that was made a moment ago.
// Errors are those of kube::Client. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/kind_info.h"
#include "api/kinds/kinds.h"
#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "kube/client.h"
#include "volume/volume_plugin.h"

namespace berth::crustproxy {

// A PersistentVolume in a pod that has a RuntimeClass.
struct PodVolume {
  api::Pod pod;
  std::vector<std::string> names;  // in pod.spec.volumes
  volume::VolumeSpec spec;
  api::CsiDriver driver;  // without a spec, which means the defaults, if there is no such object
};

class Cluster {
 public:
  // `client` is borrowed.
  Cluster(kube::Client& client, std::string node) : client_(client), node_(std::move(node)) {}

  base::StatusOr<base::Json> GetObject(const api::KindInfo& kind, std::string_view ns,
                                       std::string_view name) {
    return client_.Get(kind, ns, name);
  }

  // Whether a pod of this node that has not ended, and whose RuntimeClass names a handler, uses the
  // volume.
  base::StatusOr<bool> HasPodWithHandler(const std::string& volume_handle);
  // The volume `name` (a PersistentVolume) in the pod; nullopt: the pod has no RuntimeClass, or the
  // volume is not the CSI volume `volume_handle`, or it is one of the pod itself
  // (pod.spec.volumes[].csi): such a volume has no StorageClass that would allow a handler.
  // UNAVAILABLE: the API does not know the pod.
  base::StatusOr<std::optional<PodVolume>> FindPodVolume(const api::PodUid& pod,
                                                         const api::VolumeName& name,
                                                         const std::string& volume_handle);

 private:
  base::StatusOr<std::vector<api::Pod>> ListPods();
  // The handle of the volume that is bound to the claim; "": none, or no CSI volume.
  base::StatusOr<std::string> FindHandle(const std::string& ns, const std::string& claim);

  kube::Client& client_;
  const std::string node_;
};

}  // namespace berth::crustproxy
