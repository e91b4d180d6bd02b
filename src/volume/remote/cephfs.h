// The plugin for cephfs: a folder of a Ceph file system, mounted by ceph-fuse. The key of the Ceph
// user comes from a Secret, through a file that exists while ceph-fuse starts, or from a keyring on
// the machine or in the pod that runs ceph-fuse.
#pragma once

#include "volume/remote/network_plugin.h"

namespace berth::volume {

class CephfsPlugin : public NetworkPlugin {
 public:
  explicit CephfsPlugin(Host& host) : NetworkPlugin(host, "kubernetes.io/cephfs", "cephfs") {}

 protected:
  StatusOr<HelperMount> MakeMount(const Wanted& wanted) override;
  bool ShowsVolume(const platform::MountEntry& entry, const VolumeSpec& spec) const override;
};

}  // namespace berth::volume
