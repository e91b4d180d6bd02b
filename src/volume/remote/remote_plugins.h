// The plugins of Kubernetes' old in-tree volumes whose data is not made by the node: network file
// systems (network_plugin.h), disks of a network such as rbd, iscsi and fc (disk_plugin.h), and
// local block devices (local_volume.h).
#pragma once

#include <memory>
#include <vector>

#include "volume/host.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

// `host` is borrowed and outlives them.
std::vector<std::unique_ptr<VolumePlugin>> NewRemotePlugins(Host& host);

}  // namespace berth::volume
