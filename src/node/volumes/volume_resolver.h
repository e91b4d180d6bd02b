// Resolves a pod's volumes to claim, PersistentVolume, plugin and device.
//
// Reads informers; only plugins may read from the API (a CSIDriver). The constructor's references
// are borrowed. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "kube/informers/informers.h"
#include "node/volumes/volume_use.h"
#include "volume/host.h"
#include "volume/plugin_registry.h"
#include "volume/volume_plugin.h"

namespace berth::node {

struct ResolvedPod {
  struct Unresolved {
    std::string reason;
    // True for an error; false if the volume only waits for something.
    bool failed = false;
  };
  std::vector<WantedVolume> volumes;
  std::map<std::string, Unresolved> unresolved;  // by pod volume name
  // The objects that the pod's volumes depend on, whether they exist or not. When one of them
  // changes, the pod is resolved again.
  std::vector<std::string> claims;  // keys
  std::vector<std::string> pvs;
  base::Status retry;  // not OK: something could not be read; try again after a backoff
};

class VolumeResolver {
 public:
  VolumeResolver(kube::Informers& informers, volume::PluginRegistry& plugins, volume::Host& host)
      : claims_(informers.Of<api::PersistentVolumeClaim>()),
        pvs_(informers.Of<api::PersistentVolume>()),
        plugins_(plugins),
        host_(host) {}

  // `in_use`: the pod has volumes already, so it may use a claim that is being deleted. No error is
  // returned: ResolvedPod says what could not be resolved.
  ResolvedPod Resolve(const api::Pod& pod, bool in_use) const;

 private:
  enum class Usage { kNone, kFileSystem, kBlock, kBoth };
  static Usage UsageOf(const api::Pod& pod, const std::string& volume);
  base::StatusOr<volume::VolumeSpec> SpecOf(const api::Pod& pod, const api::PodVolume& volume,
                                            bool in_use, ResolvedPod& out) const;
  base::Status FindClaim(const api::Pod& pod, const std::string& claim_name, bool owned,
                         bool in_use, volume::VolumeSpec& spec, ResolvedPod& out) const;
  base::StatusOr<WantedVolume> WantedOf(std::shared_ptr<volume::VolumePlugin> plugin,
                                        volume::VolumeSpec spec) const;
  bool RequiresRepublish(const volume::VolumeSpec& spec) const;

  kube::Informer<api::PersistentVolumeClaim>& claims_;
  kube::Informer<api::PersistentVolume>& pvs_;
  volume::PluginRegistry& plugins_;
  volume::Host& host_;
};

// The volumes of a pod that some container uses; the others are not set up, as in the kubelet.
std::vector<std::string> FindUsedVolumes(const api::Pod& pod);

}  // namespace berth::node
