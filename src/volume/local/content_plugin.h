// The plugins whose content the node agent writes from API objects: configMap, secret, projected,
// downwardAPI. They differ in how they collect their files.
#pragma once

#include <memory>

#include "volume/local/local_plugin.h"

namespace berth::volume {

std::unique_ptr<VolumePlugin> NewConfigMapPlugin(Host& host);
std::unique_ptr<VolumePlugin> NewSecretPlugin(Host& host);
std::unique_ptr<VolumePlugin> NewDownwardApiPlugin(Host& host);
std::unique_ptr<VolumePlugin> NewProjectedPlugin(Host& host);

}  // namespace berth::volume
