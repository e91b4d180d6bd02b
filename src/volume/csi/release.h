// How a driver is asked to release a volume.
//
// The answer NOT_FOUND counts as success. The volume may have been deleted after an earlier call
// had released it and before the node could record that. An inline volume is deleted by
// NodeUnpublishVolume itself. The driver would answer NOT_FOUND to every repetition, and the volume
// would stay attached for ever.
//
// A driver that has lost its state answers NOT_FOUND, too, so the caller must then check that
// nothing is mounted at the volume's path. The API cannot tell the two apart, because a node may
// read only PersistentVolumes that its pods use.
#pragma once

#include "platform/mounts/mount_paths.h"
#include "volume/csi/csi_volume.h"
#include "volume/csi/driver_clients.h"

namespace berth::volume::csi_volume {

// Calls NodeUnpublishVolume.
Status UnpublishByDriver(rpc::CsiClient& driver, const Record& record,
                         const platform::TargetPath& target);
Status UnpublishByDriver(DriverClients& drivers, const Record& record,
                         const platform::TargetPath& target);
// Calls NodeUnstageVolume.
Status UnstageByDriver(rpc::CsiClient& driver, const Record& record,
                       const platform::StagingPath& staging);
// The same, if the driver has the capability STAGE_UNSTAGE_VOLUME.
Status UnstageByDriver(DriverClients& drivers, const Record& record,
                       const platform::StagingPath& staging);

}  // namespace berth::volume::csi_volume
