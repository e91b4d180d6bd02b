// Types for the ids of API objects. They are different types, so that a call cannot mix them up.
#pragma once

#include "base/id.h"

namespace berth::api {

using PodUid = base::Id<struct PodUidKind>;      // Pod.metadata.uid
using NodeName = base::Id<struct NodeNameKind>;  // Node.metadata.name
// The PersistentVolume's name; for a volume of one pod, the pod's name for it.
using VolumeName = base::Id<struct VolumeNameKind>;
// PersistentVolume.spec.csi.volumeHandle, the driver's own id of the volume.
using VolumeHandle = base::Id<struct VolumeHandleKind>;

}  // namespace berth::api
