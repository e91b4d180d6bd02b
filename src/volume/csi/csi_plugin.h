// The kubelet's side of CSI: volumes of out-of-process drivers that registered on this node.
//
//   file system   NodeStageVolume at plugins/kubernetes.io/csi/DRIVER/SHA256(HANDLE)/globalmount
//                 NodePublishVolume at pods/UID/volumes/kubernetes.io~csi/NAME/mount, then fsGroup
//   block         staged at .../volumeDevices/staging/PV, published at
//   .../volumeDevices/publish/PV/UID;
//                 pods/UID/volumeDevices/kubernetes.io~csi/PV is a symlink to it
//   inline        published only; its handle is derived from pod and volume
//
// vol_data.json beside the mount (volumeDevices/PV/data for block) is written durably before the
// driver is called and says whose mount it is. It and the mount table are compared before each
// publish and tear-down: a mount without a record, or with another volume's, is refused with
// FAILED_PRECONDITION. A first call that failed for certain (rpc::IsFinal) takes its folder and
// record away; an unknown outcome keeps them.
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
