// Decides what the answer NOT_FOUND means when a driver is asked to release a volume.
#pragma once

#include "volume/csi/csi_volume.h"

namespace berth::volume::csi_volume {

// Returns the result of NodeUnpublishVolume or NodeUnstageVolume: `answer`, but OK in place of
// NOT_FOUND. The volume may have been deleted after an earlier call had released it and before the
// node could record that. An inline volume is deleted by NodeUnpublishVolume itself. The driver
// would answer NOT_FOUND to every repetition, and the volume would stay attached for ever.
//
// A driver that has lost its state answers NOT_FOUND, too, so the caller must then check that
// nothing is mounted at the volume's path. The API cannot tell the two apart, because a node may
// read only PersistentVolumes that its pods use.
Status ToReleaseResult(const Status& answer, const Record& record);

}  // namespace berth::volume::csi_volume
