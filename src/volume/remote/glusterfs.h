// glusterfs: a GlusterFS volume, mounted by mount.glusterfs from the servers that an Endpoints
// object lists. Any of them can tell where the volume's bricks are, so the client gets all of them.
//
//   plugins/kubernetes.io/glusterfs/<volume>/<pod uid>-glusterfs.log
//       the log of the client, because the utility itself prints little
#pragma once

#include "volume/remote/network_plugin.h"

namespace berth::volume {

class GlusterfsPlugin : public NetworkPlugin {
 public:
  explicit GlusterfsPlugin(Host& host)
      : NetworkPlugin(host, "kubernetes.io/glusterfs", "glusterfs") {}

 protected:
  StatusOr<HelperMount> MountOf(const Wanted& wanted) override;
  bool Shows(const platform::MountEntry& entry, const VolumeSpec& spec) const override;
  std::string LastWords(const Wanted& wanted) const override;
  Status Forget(const PodVolumeRecord& record) override;

 private:
  // NOT_FOUND: there are no such Endpoints; FAILED_PRECONDITION: none of its addresses is ready.
  StatusOr<std::vector<std::string>> Servers(const api::Pod& pod, const VolumeSpec& spec);
  std::string LogFile(const std::string& pod_uid, const std::string& folder_name) const;
};

}  // namespace berth::volume
