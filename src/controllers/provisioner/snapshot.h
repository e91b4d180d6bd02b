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
// On a content: its volume's mode may differ from that of a volume made from it.
inline constexpr std::string_view kAllowModeChange =
    "snapshot.storage.kubernetes.io/allow-volume-mode-change";

// Whether `snapshot` can be looked at at all: FAILED_PRECONDITION while it is deleted (unless
// `begun`: a volume from it may exist already, and it is held for that), or has no content.
base::Status CheckSnapshot(const api::VolumeSnapshot& snapshot, bool begun);

struct SnapshotUse {
  const api::PersistentVolumeClaim& claim;
  const api::VolumeSnapshot& snapshot;
  const api::VolumeSnapshotContent& content;
  std::string driver;
  bool prevent_mode_conversion = true;
};
// The driver's id of the snapshot, or FAILED_PRECONDITION saying what is in the way.
base::StatusOr<std::string> SnapshotHandle(const SnapshotUse& use);

}  // namespace berth::controllers::provisioner
