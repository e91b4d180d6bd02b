// The plugin for emptyDir: scratch space that exists as long as its pod.
#pragma once

#include "volume/local/local_plugin.h"

namespace berth::volume {

class EmptyDirPlugin : public LocalPlugin {
 public:
  explicit EmptyDirPlugin(Host& host) : LocalPlugin(host, "kubernetes.io/empty-dir", "emptyDir") {}

  StatusOr<Published> SetUp(const api::Pod& pod, const VolumeSpec& spec,
                            const api::Labels& publish_context) override;
};

}  // namespace berth::volume
