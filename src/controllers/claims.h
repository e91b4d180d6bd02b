// What several controllers ask about claims: which pods use them, their class, and which volume
// fits. The functions only read the informers. FindVolume needs the indexes of volumes (indexes.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "kube/informers/informer.h"

namespace berth::controllers {

// The names of the claims that a pod uses, those of its generic ephemeral volumes
// ("<pod>-<volume>") included, in the order of spec.volumes.
std::vector<std::string> ClaimNames(const api::Pod& pod);

// Whether the claim is bound: it has the annotation bind-completed and a volume name. The phase
// (Lost) plays no part.
bool IsBound(const api::PersistentVolumeClaim& claim);

// Whether the claimRef of `volume` names this claim: the same namespace and name, and the same uid
// if the claimRef has one.
bool RefersTo(const api::PersistentVolume& volume, const api::PersistentVolumeClaim& claim);

// spec.claimRef for `claim`, as the binder and the provisioner write it.
base::Json ClaimReference(const api::PersistentVolumeClaim& claim);

// The class that is marked as default. Of several it is the newest, and of those created at the
// same time the first by name. nullptr: none.
std::shared_ptr<const api::StorageClass> DefaultClass(
    const kube::Informer<api::StorageClass>& classes);

// The class of a volume, by the beta annotation or spec.storageClassName; "" for none.
std::string VolumeClassName(const api::PersistentVolume& volume);

// The class that a claim names itself, by the same two fields. nullopt: the default class applies.
std::optional<std::string> OwnClassName(const api::PersistentVolumeClaim& claim);

// The name of the class a claim asks for: spec.storageClassName, or the beta annotation before it,
// or the default class's. "" for none.
std::string ClassName(const api::PersistentVolumeClaim& claim,
                      const kube::Informer<api::StorageClass>& classes);

// Whether `volume` can serve `claim` of class `class_name`: class, volume mode,
// VolumeAttributesClass, access modes and size. OK, or FAILED_PRECONDITION saying what does not
// fit.
base::Status CheckFits(const api::PersistentVolume& volume, const api::PersistentVolumeClaim& claim,
                       const std::string& class_name);

struct MatchOptions {
  std::string class_name;
  // Find only volumes that name the claim already. Set for a claim that waits for its first
  // consumer.
  bool pre_bound_only = false;
  // If set, the volume must be usable on this node.
  const api::Node* node = nullptr;
  // Volumes taken already for another claim of the same pod, by name.
  std::vector<std::string> exclude;
};

// The volume for an unbound claim: one that names the claim, else the smallest that fits (by name
// among equals). nullptr: there is none, or the claim's selector is malformed.
std::shared_ptr<const api::PersistentVolume> FindVolume(
    const kube::Informer<api::PersistentVolume>& volumes, const api::PersistentVolumeClaim& claim,
    const MatchOptions& options);

// Whether spec.nodeAffinity.required of `volume` holds for `node`, or is absent. False if it is
// malformed.
bool VolumeReachableFrom(const api::PersistentVolume& volume, const api::Node& node);

}  // namespace berth::controllers
