// Stages and publishes raw block CSI volumes.
//
//   plugins/kubernetes.io/csi/volumeDevices/PV/data/vol_data.json   record: driver, handle, pod
//   plugins/kubernetes.io/csi/volumeDevices/staging/PV/             NodeStageVolume
//   plugins/kubernetes.io/csi/volumeDevices/publish/PV/POD_UID      NodePublishVolume: the device
//   pods/UID/volumeDevices/kubernetes.io~csi/PV                     symlink to it
#pragma once

#include <sys/types.h>

#include <string>

#include "platform/mounts/mount_paths.h"
#include "volume/csi/csi_volume.h"
#include "volume/csi/driver_clients.h"
#include "volume/host.h"

namespace berth::volume::csi_volume {

class BlockVolumes {
 public:
  // Borrows both.
  BlockVolumes(Host& host, DriverClients& drivers) : host_(host), drivers_(drivers) {}

  Status Stage(const Volume& volume, const api::Labels& publish_context);
  Status Unstage(const Record& record, const api::VolumeName& pv);
  StatusOr<Published> Publish(const api::Pod& pod, const Volume& volume,
                              const api::Labels& publish_context);
  Status Unpublish(const Record& record, const api::PodUid& pod, const api::VolumeName& pv);

  // For volumes of an earlier boot: these do not call the driver (VolumePlugin::ForgetDevice,
  // ForgetPodVolume). They do nothing if the record on disk names another volume.
  Status ForgetDevice(const Record& record, const api::VolumeName& pv);
  Status ForgetPod(const Record& record, const api::PodUid& pod, const api::VolumeName& pv);

 private:
  // Checks `target` after the driver said that the volume is published there. FAILED_PRECONDITION:
  // there is no block device, or one that is published as another volume.
  Status CheckPublished(const Volume& volume, const platform::TargetPath& target);
  // The handle of another volume that was published on the same device; empty if there is none.
  StatusOr<std::string> FindOtherVolume(dev_t device, const Volume& volume);
  Status RemovePublished(const api::PodUid& pod, const api::VolumeName& pv);
  // Removes what Stage made. FAILED_PRECONDITION: the staging path is still a mount point.
  Status RemoveStaged(const api::VolumeName& pv);

  Host& host_;
  DriverClients& drivers_;
};

}  // namespace berth::volume::csi_volume
