// Finds the CSI volumes on this node by the vol_data.json beside each. They are the same that the
// volume manager's records name, in case those are lost. When a driver has released a volume, its
// vol_data.json is removed.
#pragma once

#include "volume/paths.h"
#include "volume/volume_plugin.h"

namespace berth::volume::csi_volume {

// A file that cannot be read, or that names a volume which does not belong there, is logged and
// left out.
StatusOr<VolumePlugin::Found> FindVolumes(const Paths& paths);

}  // namespace berth::volume::csi_volume
