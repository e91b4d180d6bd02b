// The plugin for glusterfs: a GlusterFS volume, mounted by mount.glusterfs from the servers that an
// Endpoints object lists. Each server knows where the volume's bricks are, so the client gets the
// addresses of all.
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
  StatusOr<HelperMount> MakeMount(const Wanted& wanted) override;
  bool ShowsVolume(const platform::MountEntry& entry, const VolumeSpec& spec) const override;
  std::string ReadFailureLog(const Wanted& wanted) const override;
  Status RemovePluginFiles(const PodVolumeRecord& record) override;

 private:
  // Reads the servers' addresses. NOT_FOUND: there are no such Endpoints; FAILED_PRECONDITION: none
  // of its addresses is ready.
  StatusOr<std::vector<std::string>> ReadServers(const api::Pod& pod, const VolumeSpec& spec);
  std::string GetLogPath(const api::PodUid& pod, const api::VolumeName& volume) const;
};

}  // namespace berth::volume
