#include "volume/remote/remote_plugins.h"

#include "volume/remote/cephfs.h"
#include "volume/remote/fc.h"
#include "volume/remote/glusterfs.h"
#include "volume/remote/iscsi.h"
#include "volume/remote/local_volume.h"
#include "volume/remote/nfs.h"
#include "volume/remote/rbd.h"

namespace berth::volume {

std::vector<std::unique_ptr<VolumePlugin>> NewRemotePlugins(Host& host) {
  std::vector<std::unique_ptr<VolumePlugin>> plugins;
  plugins.push_back(std::make_unique<GlusterfsPlugin>(host));
  plugins.push_back(std::make_unique<CephfsPlugin>(host));
  plugins.push_back(std::make_unique<NfsPlugin>(host));
  plugins.push_back(std::make_unique<LocalVolumePlugin>(host));
  plugins.push_back(std::make_unique<RbdPlugin>(host));
  plugins.push_back(std::make_unique<IscsiPlugin>(host));
  plugins.push_back(std::make_unique<FcPlugin>(host));
  return plugins;
}

}  // namespace berth::volume
