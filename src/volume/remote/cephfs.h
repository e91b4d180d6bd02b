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

 private:
  // Makes the keyring from the volume's Secret; "": the volume names no Secret. NOT_FOUND: there is
  // no such Secret; FAILED_PRECONDITION: it holds no key.
  StatusOr<std::string> MakeKeyring(const api::Pod& pod, const VolumeSpec& spec,
                                    const std::string& user);
};

}  // namespace berth::volume
