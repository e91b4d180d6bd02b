// Types for the paths at which a volume is mounted. They are different types, so that a call cannot
// mix them up with each other or with the name of a device. A path becomes one of them where the
// program computes it or reads it from a message or a record.
#pragma once

#include "base/id.h"

namespace berth::platform {

// The place of a volume for one pod (CSI: NodePublishVolumeRequest.target_path).
using TargetPath = base::Id<struct TargetPathKind>;
// The place of a volume for all pods of a node (CSI: NodeStageVolumeRequest.staging_target_path).
using StagingPath = base::Id<struct StagingPathKind>;
// A place of either kind, for what treats both alike.
using MountPoint = base::Id<struct MountPointKind>;

}  // namespace berth::platform
