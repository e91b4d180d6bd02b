// Finds the volumes of bound claims for the resizer and the modifier.
#pragma once

#include <memory>
#include <string>

#include "api/migration/translation.h"
#include "base/status.h"
#include "controllers/claims.h"
#include "controllers/driver_connection.h"

namespace berth::controllers::resizer {

// On claims whose volume is of an in-tree plugin: who expands it. kube-controller-manager writes
// the name of the CSI driver that replaces the plugin.
inline constexpr std::string_view kStorageResizer = "volume.kubernetes.io/storage-resizer";

// Finds the volumes in the informers. If each node has a resizer of its own, `node_name` is the
// node to whose volumes the work is limited; else it is empty. Thread-safe.
class BoundVolumes {
 public:
  BoundVolumes(kube::Informers& informers, const std::string& node_name)
      : volumes_(informers.Of<api::PersistentVolume>()),
        nodes_(node_name.empty() ? nullptr : &informers.Of<api::Node>()),
        node_name_(node_name) {}

  // Calls `again` when volumes may have come within the node's reach.
  void OnNodeChange(std::function<void()> again) const {
    if (nodes_ == nullptr) return;
    nodes_->AddHandler([node = node_name_, again = std::move(again)](const auto& change) {
      if (change.key != node || change.after == nullptr) return;
      if (change.before == nullptr || change.before->labels() != change.after->labels()) again();
    });
  }

  // NOT_FOUND if the volume to which `claim` is bound does not show in the informer yet, because
  // objects of two kinds come by two watches, in any order.
  base::Status CheckSeen(const api::PersistentVolumeClaim* claim) const {
    if (!IsSettled(claim) || volumes_.Get(claim->volume_name()) != nullptr) {
      return base::OkStatus();
    }
    return base::Error(base::StatusCode::kNotFound,
                       "PersistentVolume '{}' of claim '{}' is not known yet", claim->volume_name(),
                       claim->key());
  }

  // The volume to which `claim` is bound, also by its status, if it has a CSI source of `driver`
  // and is within reach. nullptr if there is no work, or `claim` or `driver` is not known.
  std::shared_ptr<const api::PersistentVolume> Of(const api::PersistentVolumeClaim* claim,
                                                  const DriverInfo* driver) const {
    auto volume = FindBound(claim, driver);
    if (volume == nullptr || !volume->has_csi() || volume->csi().driver() != driver->name) {
      return nullptr;
    }
    return volume;
  }

  // As Of, and also the volume of an in-tree plugin that `driver` replaces, as it is.
  std::shared_ptr<const api::PersistentVolume> OfWithInTree(const api::PersistentVolumeClaim* claim,
                                                            const DriverInfo* driver) const {
    auto volume = FindBound(claim, driver);
    if (volume == nullptr || !api::migration::IsMigratable(*volume)) return Of(claim, driver);
    if (claim->annotation(kStorageResizer) != driver->name) return nullptr;
    // A volume that cannot be translated is the driver's all the same, so that its claim is told.
    const auto translated = api::migration::TranslateToCsi(*volume);
    return !translated.ok() || translated->csi().driver() == driver->name ? volume : nullptr;
  }

 private:
  // A claim that is being deleted counts, because a pod may use it for long.
  static bool IsSettled(const api::PersistentVolumeClaim* claim) {
    return claim != nullptr && IsBound(*claim) && claim->phase() == "Bound";
  }

  std::shared_ptr<const api::PersistentVolume> FindBound(const api::PersistentVolumeClaim* claim,
                                                         const DriverInfo* driver) const {
    if (driver == nullptr || !IsSettled(claim)) return nullptr;
    auto volume = volumes_.Get(claim->volume_name());
    if (volume == nullptr || !RefersTo(*volume, *claim) || !WithinReach(*volume)) return nullptr;
    return volume;
  }

  bool WithinReach(const api::PersistentVolume& volume) const {
    if (nodes_ == nullptr) return true;
    const auto node = nodes_->Get(node_name_);
    if (node == nullptr) return false;
    // The node has the driver's labels, and an in-tree plugin's volume those of the plugin.
    return VolumeReachableFrom(api::migration::AsCsiVolume(volume).value_or(volume), *node);
  }

  const kube::Informer<api::PersistentVolume>& volumes_;
  kube::Informer<api::Node>* const nodes_;  // null: all volumes of the driver
  const std::string node_name_;
};

}  // namespace berth::controllers::resizer
