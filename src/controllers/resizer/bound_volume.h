// What both the resizer and the modifier work on: the volume of a claim in use.
#pragma once

#include <memory>

#include "controllers/claims.h"
#include "controllers/driver_connection.h"

namespace berth::controllers::resizer {

// The volume that `claim` is bound to, status included, if it is one of `driver`'s; nullptr if
// there is nothing to work on, as while one of the two is not known.
inline std::shared_ptr<const api::PersistentVolume> BoundVolume(
    const kube::Informer<api::PersistentVolume>& volumes, const api::PersistentVolumeClaim* claim,
    const DriverInfo* driver) {
  if (driver == nullptr || claim == nullptr || claim->deleting() || !IsBound(*claim) ||
      claim->phase() != "Bound") {
    return nullptr;
  }
  auto volume = volumes.Get(claim->volume_name());
  if (volume == nullptr || !volume->has_csi() || volume->csi().driver() != driver->name ||
      !RefersTo(*volume, *claim)) {
    return nullptr;
  }
  return volume;
}

}  // namespace berth::controllers::resizer
