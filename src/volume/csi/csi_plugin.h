// The volume plugin for CSI, which does the kubelet's part: volumes of out-of-process drivers that
// are registered on this node.
//
//   file system   NodeStageVolume at plugins/kubernetes.io/csi/DRIVER/SHA256(HANDLE)/globalmount
//                 NodePublishVolume at pods/UID/volumes/kubernetes.io~csi/NAME/mount, then fsGroup
//   block         staged at .../volumeDevices/staging/PV
//                 published at .../volumeDevices/publish/PV/UID
//                 pods/UID/volumeDevices/kubernetes.io~csi/PV is a symlink to it
//   inline        published only; its handle is derived from pod and volume
//
// vol_data.json beside the mount (volumeDevices/PV/data for block) is written durably before the
// driver is called, and names the volume that the mount belongs to. The record and the mount table
// are compared before each publish and tear-down: a mount without a record, or with the record of
// another volume, is refused with FAILED_PRECONDITION. If a first call certainly failed
// (rpc::IsFinal), its folder and record are removed; if its outcome is unknown, they stay.
//
// Each driver call has two minutes. Errors are the driver's, with the call's name; UNAVAILABLE
// while the driver is not registered.
#pragma once

#include <memory>

#include "volume/host.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

// `host` is borrowed and outlives the plugin.
std::unique_ptr<VolumePlugin> NewCsiPlugin(Host& host);

}  // namespace berth::volume
