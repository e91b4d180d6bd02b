#include "controllers/data_source.h"

namespace berth::controllers {

std::string CloneSourceName(const api::PersistentVolumeClaim& claim) {
  const api::Part reference = claim.data_source();
  const bool clone = reference.String({"kind"}) == "PersistentVolumeClaim" &&
                     reference.String({"apiGroup"}).empty();
  return clone ? reference.String({"name"}) : "";
}

std::string SnapshotSourceName(const api::PersistentVolumeClaim& claim) {
  const api::Part reference = claim.data_source();
  const bool snapshot = reference.String({"kind"}) == api::kinds::kVolumeSnapshot.kind &&
                        reference.String({"apiGroup"}) == api::kSnapshotGroup;
  return snapshot ? reference.String({"name"}) : "";
}

}  // namespace berth::controllers
