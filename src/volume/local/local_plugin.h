// The common part of the local plugins, whose volumes the node makes for one pod, inline.
#pragma once

#include "volume/pod_volume_plugin.h"

namespace berth::volume {

class LocalPlugin : public PodVolumePlugin {
 public:
  using PodVolumePlugin::PodVolumePlugin;

  bool Supports(const VolumeSpec& spec) const override {
    return spec.pv == nullptr && PodVolumePlugin::Supports(spec);
  }
  // Unmounts and removes the volume's folder.
  Status TearDown(const PodVolumeRecord& record) override;
  // The size of the file system, and how much of it the folder uses.
  StatusOr<Stats> GetStats(const PodVolumeRecord& record) override;
};

}  // namespace berth::volume
