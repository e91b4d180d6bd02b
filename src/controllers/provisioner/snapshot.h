// VolumeSnapshots as the source of a volume: whether a snapshot may fill a claim's volume. Pure.
#pragma once

#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "api/kinds/snapshots.h"
#include "base/status.h"

namespace berth::controllers::provisioner {

// On a snapshot while a volume is made from it.
inline constexpr std::string_view kSnapshotProtection =
    "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";
// On a content: a volume made from it may have another volumeMode than the source.
inline constexpr std::string_view kAllowModeChange =
    "snapshot.storage.kubernetes.io/allow-volume-mode-change";

// OK if `snapshot` may be used. FAILED_PRECONDITION if it has no content, or is being deleted. A
// snapshot that is being deleted may be used while it has the finalizer, as with the Go program,
// because this or another program may have begun to make a volume from it.
base::Status CheckSnapshot(const api::VolumeSnapshot& snapshot);

struct SnapshotUse {
  const api::PersistentVolumeClaim& claim;
  const api::VolumeSnapshot& snapshot;
  const api::VolumeSnapshotContent& content;
  std::string driver;
  bool prevent_mode_conversion = true;
};
// The driver's id of the snapshot, or FAILED_PRECONDITION, which says why it cannot be used.
base::StatusOr<std::string> SnapshotHandle(const SnapshotUse& use);

}  // namespace berth::controllers::provisioner
