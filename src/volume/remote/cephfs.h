// cephfs: a folder of a Ceph file system, mounted by ceph-fuse. The key of the Ceph user comes from
// a Secret, by a file that is there while ceph-fuse starts, or from a keyring where ceph-fuse runs.
#pragma once

#include "volume/remote/network_plugin.h"

namespace berth::volume {

class CephfsPlugin : public NetworkPlugin {
 public:
  explicit CephfsPlugin(Host& host) : NetworkPlugin(host, "kubernetes.io/cephfs", "cephfs") {}

 protected:
  StatusOr<HelperMount> MountOf(const Wanted& wanted) override;
  bool Shows(const platform::MountEntry& entry, const VolumeSpec& spec) const override;

 private:
  // The keyring that the volume's Secret makes; empty: it names none.
  StatusOr<std::string> Keyring(const api::Pod& pod, const VolumeSpec& spec,
                                const std::string& user);
};

}  // namespace berth::volume
