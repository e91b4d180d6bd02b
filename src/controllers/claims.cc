#include "controllers/claims.h"

#include <algorithm>

#include "api/kinds/pod_claims.h"
#include "api/quantity.h"
#include "api/selector.h"
#include "base/log.h"
#include "controllers/indexes.h"
#include "controllers/well_known_names.h"

namespace berth::controllers {

using api::PersistentVolume;
using api::PersistentVolumeClaim;
using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::string_view kBetaStorageClass = "volume.beta.kubernetes.io/storage-class";

}  // namespace

std::string VolumeClassName(const PersistentVolume& volume) {
  return volume.has_annotation(kBetaStorageClass) ? volume.annotation(kBetaStorageClass)
                                                  : volume.storage_class_name();
}

std::optional<std::string> OwnClassName(const PersistentVolumeClaim& claim) {
  if (claim.has_annotation(kBetaStorageClass)) return claim.annotation(kBetaStorageClass);
  return claim.storage_class_name();
}

std::vector<std::string> ClaimNames(const api::Pod& pod) {
  std::vector<std::string> names;
  for (const api::PodVolume& volume : pod.volumes()) {
    if (std::string name = api::FindClaimName(pod, volume); !name.empty()) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

bool IsBound(const PersistentVolumeClaim& claim) {
  return claim.has_annotation(kBindCompleted) && !claim.volume_name().empty();
}

bool RefersTo(const PersistentVolume& volume, const PersistentVolumeClaim& claim) {
  return volume.claim_name() == claim.name() && volume.claim_namespace() == claim.ns() &&
         (volume.claim_uid().empty() || volume.claim_uid() == claim.uid());
}

Json ClaimReference(const PersistentVolumeClaim& claim) {
  return {{"apiVersion", "v1"},      {"kind", "PersistentVolumeClaim"},
          {"namespace", claim.ns()}, {"name", claim.name()},
          {"uid", claim.uid()},      {"resourceVersion", claim.resource_version()}};
}

std::shared_ptr<const api::StorageClass> DefaultClass(
    const kube::Informer<api::StorageClass>& classes) {
  std::shared_ptr<const api::StorageClass> best;
  std::string best_created;
  for (const auto& candidate : classes.List()) {
    if (candidate->annotation(kDefaultClass) != "true" &&
        candidate->annotation(kBetaDefaultClass) != "true") {
      continue;
    }
    // RFC 3339 in UTC sorts as text.
    const std::string created = candidate->String({"metadata", "creationTimestamp"});
    if (best == nullptr || created > best_created ||
        (created == best_created && candidate->name() < best->name())) {
      best = candidate;
      best_created = created;
    }
  }
  return best;
}

std::string ClassName(const PersistentVolumeClaim& claim,
                      const kube::Informer<api::StorageClass>& classes) {
  if (const std::optional<std::string> own = OwnClassName(claim)) return *own;
  const auto fallback = DefaultClass(classes);
  return fallback != nullptr ? fallback->name() : "";
}

Status CheckFits(const PersistentVolume& volume, const PersistentVolumeClaim& claim,
                 const std::string& class_name) {
  if (VolumeClassName(volume) != class_name) {
    return Error(StatusCode::kFailedPrecondition, "storageClassName does not match");
  }
  if (volume.volume_mode() != claim.volume_mode()) {
    return Error(StatusCode::kFailedPrecondition, "incompatible volumeMode");
  }
  if (volume.volume_attributes_class_name() != claim.volume_attributes_class_name()) {
    return Error(StatusCode::kFailedPrecondition, "VolumeAttributesClassName does not match");
  }
  const std::vector<std::string> offered = volume.access_modes();
  for (const std::string& mode : claim.access_modes()) {
    if (std::find(offered.begin(), offered.end(), mode) == offered.end()) {
      return Error(StatusCode::kFailedPrecondition, "incompatible accessMode");
    }
  }
  if (claim.requested_storage().empty()) return base::OkStatus();
  const StatusOr<int> compared =
      api::CompareQuantities(volume.capacity(), claim.requested_storage());
  if (!compared.ok() || *compared < 0) {
    return Error(StatusCode::kFailedPrecondition, "requested PV is too small");
  }
  return base::OkStatus();
}

bool VolumeReachableFrom(const PersistentVolume& volume, const api::Node& node) {
  const Json* required = volume.node_affinity();
  if (required == nullptr) return true;
  const StatusOr<bool> matches = api::NodeSelectorMatches(*required, node.labels(), node.name());
  return matches.ok() && *matches;
}

std::shared_ptr<const PersistentVolume> FindVolume(const kube::Informer<PersistentVolume>& volumes,
                                                   const PersistentVolumeClaim& claim,
                                                   const MatchOptions& options) {
  api::LabelSelector selector;
  if (const Json* text = claim.selector()) {
    StatusOr<api::LabelSelector> parsed = api::LabelSelector::FromJson(*text);
    if (!parsed.ok()) {
      LOG_WARNING("claim {} has a malformed selector: {}", base::Quote(claim.key()),
                  base::ToString(parsed.status()));
      return nullptr;
    }
    selector = *std::move(parsed);
  }
  const auto usable = [&](const PersistentVolume& volume) {
    return !volume.deleting() && CheckFits(volume, claim, options.class_name).ok() &&
           std::find(options.exclude.begin(), options.exclude.end(), volume.name()) ==
               options.exclude.end() &&
           (options.node == nullptr || VolumeReachableFrom(volume, *options.node));
  };
  for (const auto& volume : volumes.ByIndex(kVolumesByClaim, claim.key())) {
    if (RefersTo(*volume, claim) && usable(*volume)) return volume;
  }
  if (options.pre_bound_only) return nullptr;
  std::shared_ptr<const PersistentVolume> best;
  api::Quantity best_size;
  for (const auto& volume : volumes.ByIndex(kFreeVolumesByClass, options.class_name)) {
    if (volume->phase() != "Available" || !usable(*volume)) continue;
    if (!selector.Matches(volume->labels())) continue;
    const StatusOr<api::Quantity> size = api::Quantity::Parse(volume->capacity());
    if (!size.ok()) continue;
    if (best == nullptr || *size < best_size ||
        (*size == best_size && volume->name() < best->name())) {
      best = volume;
      best_size = *size;
    }
  }
  return best;
}

}  // namespace berth::controllers
