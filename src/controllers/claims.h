// What several controllers ask about claims: whose they are, their class, and which volume fits.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "kube/informer.h"

namespace berth::controllers {

// Indexes, added by whichever controller asks first (adding one again is harmless).
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

// The names of the claims that a pod uses, those of its generic ephemeral volumes
// ("<pod>-<volume>") included, in the order of spec.volumes.
std::vector<std::string> ClaimNames(const api::Pod& pod);

// bind-completed and a volume name: the two are one. Phase Lost is not looked at.
bool IsBound(const api::PersistentVolumeClaim& claim);

// The claim that `volume` names is this one: same namespace and name, and the same uid if it has
// one.
bool RefersTo(const api::PersistentVolume& volume, const api::PersistentVolumeClaim& claim);

// spec.claimRef for `claim`, as the binder and the provisioner write it.
base::Json ClaimReference(const api::PersistentVolumeClaim& claim);

// The class marked as default; of several the newest, then the first by name. nullptr: none.
std::shared_ptr<const api::StorageClass> DefaultClass(
    const kube::Informer<api::StorageClass>& classes);

// The name of the class a claim asks for: spec.storageClassName, or the beta annotation before it,
// or the default class's. "" for none.
std::string ClassName(const api::PersistentVolumeClaim& claim,
                      const kube::Informer<api::StorageClass>& classes);

// Whether `volume` can serve `claim` of class `class_name`: class, mode, access modes and size.
// OK, or FAILED_PRECONDITION saying what does not fit.
base::Status CheckFits(const api::PersistentVolume& volume, const api::PersistentVolumeClaim& claim,
                       const std::string& class_name);

struct MatchOptions {
  std::string class_name;
  // Only volumes that name the claim already: a claim that waits for its first consumer.
  bool pre_bound_only = false;
  // If set, the volume must be usable on this node.
  const api::Node* node = nullptr;
  // Volumes taken already for another claim of the same pod, by name.
  std::vector<std::string> exclude;
};

// The volume for an unbound claim: one that names the claim, else the smallest that fits (by name
// among equals). nullptr: none.
std::shared_ptr<const api::PersistentVolume> FindVolume(
    const kube::Informer<api::PersistentVolume>& volumes, const api::PersistentVolumeClaim& claim,
    const MatchOptions& options);

// spec.nodeAffinity.required of `volume` holds for `node`, or there is none.
bool VolumeReachableFrom(const api::PersistentVolume& volume, const api::Node& node);

}  // namespace berth::controllers
