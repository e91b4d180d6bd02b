// What a PersistentVolume of the block agent names: a StorageCluster, and an image in it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/block_kinds.h"
#include "api/kinds/kinds.h"
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

// The volume that a claim is bound to, as the informers have it. FAILED_PRECONDITION: there is none
// that can be copied; the message says what the claim is or does, such as "is not bound yet".
base::StatusOr<std::shared_ptr<const api::PersistentVolume>> FindBoundVolume(
    const kube::Informer<api::PersistentVolumeClaim>& claims,
    const kube::Informer<api::PersistentVolume>& volumes, const std::string& ns,
    const std::string& claim);

// The images that PersistentVolumes name now, as the API has them. The errors are the API's.
base::StatusOr<std::vector<std::string>> ListImages(kube::Client& client);

// Indexes of the volumes by their cluster and by the name of their image, of fences by node, and of
// snapshots by their claim ("namespace/name") and by the volume that they are begun of.
inline constexpr char kVolumesByCluster[] = "blockCluster";
inline constexpr char kVolumesByImage[] = "blockImage";
inline constexpr char kFencesByNode[] = "blockNode";
inline constexpr char kSnapshotsByClaim[] = "claim";
inline constexpr char kSnapshotsByVolume[] = "volume";
void AddBlockIndexes(kube::Informer<api::PersistentVolume>& volumes);
void AddBlockIndexes(kube::Informer<api::VolumeFence>& fences);
void AddBlockIndexes(kube::Informer<api::BlockSnapshot>& snapshots);

}  // namespace berth::controllers::blockoperator
