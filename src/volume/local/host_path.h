// The plugin for hostPath: a file or folder of the host, which the pod uses at its own path, inline
// or as a PersistentVolume.
#pragma once

#include "volume/local/local_plugin.h"

namespace berth::volume {

class HostPathPlugin : public LocalPlugin {
 public:
  explicit HostPathPlugin(Host& host) : LocalPlugin(host, "kubernetes.io/host-path", "hostPath") {}

  bool Supports(const VolumeSpec& spec) const override { return PodVolumePlugin::Supports(spec); }
  // {"path": ...}
  StatusOr<Json> PodState(const api::Pod& pod, const VolumeSpec& spec) const override;
  // Checks hostPath.type, and makes what "DirectoryOrCreate" and "FileOrCreate" ask for.
  StatusOr<Published> SetUp(const api::Pod& pod, const VolumeSpec& spec,
                            const api::Labels& publish_context) override;
  // Does nothing, because nothing was mounted or made for the pod alone.
  Status TearDown(const PodVolumeRecord& record) override;
  StatusOr<Stats> GetStats(const PodVolumeRecord& record) override;
};

}  // namespace berth::volume
