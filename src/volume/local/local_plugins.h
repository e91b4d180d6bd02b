// The plugins for volumes that need nothing but the node: emptyDir, hostPath, configMap, secret,
// projected and downwardAPI, with the kubelet's names, folders, modes and messages.
//
//   pods/<uid>/volumes/kubernetes.io~<plugin>/<volume>/
//       emptyDir: the volume itself, a tmpfs with medium Memory; content volumes: atomic_writer.h
//
// secret, projected and downwardAPI are on a tmpfs, so that no secret reaches a disk.
#pragma once

#include <memory>
#include <vector>

#include "volume/host.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

// `host` is borrowed and outlives them.
std::vector<std::unique_ptr<VolumePlugin>> NewLocalPlugins(Host& host);

}  // namespace berth::volume
