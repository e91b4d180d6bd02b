// The indexes that several controllers use to find objects by what they name: pods, host mounts and
// attachments by claim, volume or node; claims and volumes by class.
//
// A controller adds those that it uses before its informers start. Another one may have added them
// already: indexes of one name are one index (kube/informers/informer.h).
#pragma once

#include "api/kinds/kinds.h"
#include "kube/informers/informer.h"

namespace berth::controllers {

inline constexpr char kPodsByClaim[] = "claim";           // "namespace/claim" → pods
inline constexpr char kPodsByNode[] = "node";             // node → pods
inline constexpr char kHostMountsByClaim[] = "claim";     // "namespace/claim" → host mounts
inline constexpr char kAttachmentsByVolume[] = "volume";  // PersistentVolume → VolumeAttachments
inline constexpr char kAttachmentsByNode[] = "node";      // node → VolumeAttachments
inline constexpr char kClaimsByClass[] = "class";         // class ("" for none) → unbound claims
inline constexpr char kVolumesByClaim[] = "claimRef";     // "namespace/claim" → its volumes
inline constexpr char kFreeVolumesByClass[] = "class";    // class → volumes without a claimRef

void AddPodIndexes(kube::Informer<api::Pod>& pods);
void AddHostMountIndexes(kube::Informer<api::HostMount>& mounts);
void AddAttachmentIndexes(kube::Informer<api::VolumeAttachment>& attachments);
void AddClaimIndexes(kube::Informer<api::PersistentVolumeClaim>& claims);
void AddVolumeIndexes(kube::Informer<api::PersistentVolume>& volumes);

}  // namespace berth::controllers
