// Finds the CSI volumes on this node by the vol_data.json beside each, in case the volume manager's
// records are lost. A vol_data.json exists until the driver has released its volume.
#pragma once

#include "volume/paths.h"
#include "volume/volume_plugin.h"

namespace berth::volume::csi_volume {

// A file that cannot be read, or that names a volume which does not belong there, is logged and
// left out.
StatusOr<VolumePlugin::Found> FindVolumes(const Paths& paths);

}  // namespace berth::volume::csi_volume
