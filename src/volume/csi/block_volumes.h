// Raw block CSI volumes.
//
//   plugins/kubernetes.io/csi/volumeDevices/PV/data/vol_data.json   whose they are
//   plugins/kubernetes.io/csi/volumeDevices/staging/PV/             NodeStageVolume
//   plugins/kubernetes.io/csi/volumeDevices/publish/PV/POD_UID      NodePublishVolume: the device
//   pods/UID/volumeDevices/kubernetes.io~csi/PV                     symlink to it
#pragma once

#include <string>

#include "volume/csi/csi_volume.h"
#include "volume/csi/driver_clients.h"
#include "volume/host.h"

namespace berth::volume::csi_volume {

class BlockVolumes {
 public:
  BlockVolumes(Host& host, DriverClients& drivers) : host_(host), drivers_(drivers) {}

  Status Stage(const Volume& volume, const api::Labels& publish_context);
  Status Unstage(const Record& record, const std::string& pv);
  StatusOr<Published> Publish(const api::Pod& pod, const Volume& volume,
                              const api::Labels& publish_context);
  Status Unpublish(const Record& record, const std::string& pod_uid, const std::string& pv);

 private:
  // Removes what Stage made. FAILED_PRECONDITION: the staging path is still a mount point.
  Status Forget(const std::string& pv);

  Host& host_;
  DriverClients& drivers_;
};

}  // namespace berth::volume::csi_volume
