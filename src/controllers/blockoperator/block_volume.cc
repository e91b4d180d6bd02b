#include "controllers/blockoperator/block_volume.h"

#include "api/kinds/attachable.h"
#include "controllers/claims.h"

namespace berth::controllers::blockoperator {

std::optional<BlockVolume> BlockVolumeOf(const api::PersistentVolume& volume) {
  if (api::FlexDriverOf(volume) != api::kBlockDriver) return std::nullopt;
  BlockVolume out{.cluster = volume.String({"spec", "flexVolume", "options", api::kClusterOption}),
                  .image = volume.String({"spec", "flexVolume", "options", api::kImageOption})};
  if (out.cluster.empty() || out.image.empty()) return std::nullopt;
  return out;
}

base::StatusOr<std::vector<std::string>> ListImages(kube::Client& client) {
  ASSIGN_OR_RETURN(const kube::ListResult volumes,
                   client.List(api::kinds::kPersistentVolume, "", {}));
  std::vector<std::string> images;
  for (const base::Json& item : volumes.items) {
    const auto volume = BlockVolumeOf(api::PersistentVolume(item));
    if (volume.has_value()) images.push_back(volume->image);
  }
  return images;
}

base::StatusOr<std::shared_ptr<const api::PersistentVolume>> FindBoundVolume(
    const kube::Informer<api::PersistentVolumeClaim>& claims,
    const kube::Informer<api::PersistentVolume>& volumes, const std::string& ns,
    const std::string& claim) {
  const auto refuse = [](std::string_view why) {
    return base::Error(base::StatusCode::kFailedPrecondition, "{}", why);
  };
  const auto source = claims.Get(ns, claim);
  if (source == nullptr) return refuse("does not exist");
  if (source->deleting()) return refuse("is being deleted");
  auto volume = volumes.Get(source->volume_name());
  if (!IsBound(*source) || volume == nullptr || !RefersTo(*volume, *source)) {
    return refuse("is not bound yet");
  }
  return volume;
}

void AddBlockIndexes(kube::Informer<api::PersistentVolume>& volumes) {
  volumes.AddIndex(kVolumesByCluster, [](const api::PersistentVolume& object) {
    const auto volume = BlockVolumeOf(object);
    return volume.has_value() ? std::vector<std::string>{volume->cluster}
                              : std::vector<std::string>{};
  });
  volumes.AddIndex(kVolumesByImage, [](const api::PersistentVolume& object) {
    const auto volume = BlockVolumeOf(object);
    return volume.has_value() ? std::vector<std::string>{volume->image}
                              : std::vector<std::string>{};
  });
}

void AddBlockIndexes(kube::Informer<api::VolumeFence>& fences) {
  fences.AddIndex(kFencesByNode, [](const api::VolumeFence& fence) {
    std::vector<std::string> nodes;
    for (const api::FenceEntry& entry : fence.entries()) {
      nodes.push_back(entry.node);
    }
    return nodes;
  });
}

void AddBlockIndexes(kube::Informer<api::BlockSnapshot>& snapshots) {
  snapshots.AddIndex(kSnapshotsByClaim, [](const api::BlockSnapshot& snapshot) {
    return std::vector<std::string>{api::ObjectKey(snapshot.ns(), snapshot.claim_name())};
  });
  snapshots.AddIndex(kSnapshotsByVolume, [](const api::BlockSnapshot& snapshot) {
    return snapshot.volume_name().empty() ? std::vector<std::string>{}
                                          : std::vector<std::string>{snapshot.volume_name()};
  });
}

}  // namespace berth::controllers::blockoperator
