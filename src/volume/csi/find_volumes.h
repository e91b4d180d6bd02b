// The CSI volumes that this node holds, by the vol_data.json beside each: the same that the records
// of the volume manager say, should those be lost. After a driver let go of a volume its
// vol_data.json is gone.
#pragma once

#include "volume/paths.h"
#include "volume/volume_plugin.h"

namespace berth::volume::csi_volume {

// A file that cannot be read, or that names a volume which does not belong there, is logged and
// left out.
StatusOr<VolumePlugin::Found> FindVolumes(const Paths& paths);

}  // namespace berth::volume::csi_volume
