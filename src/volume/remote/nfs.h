// The plugin for nfs: an export of an NFS server, mounted by mount.nfs.
#pragma once

#include "volume/remote/network_plugin.h"

namespace berth::volume {

class NfsPlugin : public NetworkPlugin {
 public:
  explicit NfsPlugin(Host& host) : NetworkPlugin(host, "kubernetes.io/nfs", "nfs") {}

 protected:
  StatusOr<HelperMount> MakeMount(const Wanted& wanted) override;
  bool ShowsVolume(const platform::MountEntry& entry, const VolumeSpec& spec) const override;
};

}  // namespace berth::volume
