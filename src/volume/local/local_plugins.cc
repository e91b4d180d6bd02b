#include "volume/local/local_plugins.h"

#include "volume/local/content_plugin.h"
#include "volume/local/empty_dir.h"
#include "volume/local/host_path.h"

namespace berth::volume {

std::vector<std::unique_ptr<VolumePlugin>> NewLocalPlugins(Host& host) {
  std::vector<std::unique_ptr<VolumePlugin>> plugins;
  plugins.push_back(std::make_unique<EmptyDirPlugin>(host));
  plugins.push_back(std::make_unique<HostPathPlugin>(host));
  plugins.push_back(NewConfigMapPlugin(host));
  plugins.push_back(NewSecretPlugin(host));
  plugins.push_back(NewProjectedPlugin(host));
  plugins.push_back(NewDownwardApiPlugin(host));
  return plugins;
}

}  // namespace berth::volume
