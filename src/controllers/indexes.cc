#include "controllers/indexes.h"

#include "controllers/claims.h"

namespace berth::controllers {

using api::PersistentVolume;
using api::PersistentVolumeClaim;

void AddPodIndexes(kube::Informer<api::Pod>& pods) {
  pods.AddIndex(kPodsByClaim, [](const api::Pod& pod) {
    std::vector<std::string> keys;
    for (const std::string& claim : ClaimNames(pod)) {
      keys.push_back(api::ObjectKey(pod.ns(), claim));
    }
    return keys;
  });
  pods.AddIndex(kPodsByNode,
                [](const api::Pod& pod) { return std::vector<std::string>{pod.node_name()}; });
}

void AddHostMountIndexes(kube::Informer<api::HostMount>& mounts) {
  mounts.AddIndex(kHostMountsByClaim, [](const api::HostMount& mount) {
    return std::vector<std::string>{api::ObjectKey(mount.ns(), mount.claim_name())};
  });
}

void AddAttachmentIndexes(kube::Informer<api::VolumeAttachment>& attachments) {
  attachments.AddIndex(kAttachmentsByVolume, [](const api::VolumeAttachment& attachment) {
    return std::vector<std::string>{attachment.pv_name()};
  });
  attachments.AddIndex(kAttachmentsByNode, [](const api::VolumeAttachment& attachment) {
    return std::vector<std::string>{attachment.node_name()};
  });
}

void AddClaimIndexes(kube::Informer<PersistentVolumeClaim>& claims) {
  claims.AddIndex(kClaimsByClass, [](const PersistentVolumeClaim& claim) {
    if (IsBound(claim)) return std::vector<std::string>{};
    return std::vector<std::string>{OwnClassName(claim).value_or("")};
  });
}

void AddVolumeIndexes(kube::Informer<PersistentVolume>& volumes) {
  volumes.AddIndex(kVolumesByClaim, [](const PersistentVolume& volume) {
    if (!volume.has_claim_ref()) return std::vector<std::string>{};
    return std::vector<std::string>{api::ObjectKey(volume.claim_namespace(), volume.claim_name())};
  });
  volumes.AddIndex(kFreeVolumesByClass, [](const PersistentVolume& volume) {
    if (volume.has_claim_ref()) return std::vector<std::string>{};
    return std::vector<std::string>{VolumeClassName(volume)};
  });
}

}  // namespace berth::controllers
