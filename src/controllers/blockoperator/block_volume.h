// What a PersistentVolume of the block agent names: a StorageCluster, and an image in it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/kinds/block_kinds.h"
#include "base/status.h"
#include "kube/client.h"
#include "kube/informers/informer.h"

namespace berth::controllers::blockoperator {

struct BlockVolume {
  std::string cluster;
  std::string image;
};

// nullopt: `volume` is of another driver, or lacks the cluster or the image.
std::optional<BlockVolume> BlockVolumeOf(const api::PersistentVolume& volume);

// The images that PersistentVolumes name now, as the API has them. The errors are the API's.
base::StatusOr<std::vector<std::string>> ListImages(kube::Client& client);

// Indexes of the volumes by their cluster and by the name of their image, and of fences by node.
inline constexpr char kVolumesByCluster[] = "blockCluster";
inline constexpr char kVolumesByImage[] = "blockImage";
inline constexpr char kFencesByNode[] = "blockNode";
void AddBlockIndexes(kube::Informer<api::PersistentVolume>& volumes);
void AddBlockIndexes(kube::Informer<api::VolumeFence>& fences);

}  // namespace berth::controllers::blockoperator
