// Stages and publishes CSI volumes with a file system, both persistent and inline ones.
//
//   staged     plugins/kubernetes.io/csi/DRIVER/SHA256(HANDLE)/{vol_data.json, globalmount}
//   published  pods/UID/volumes/kubernetes.io~csi/NAME/{vol_data.json, mount}
#pragma once

#include <string>

#include "platform/mounts/mount_paths.h"
#include "volume/csi/csi_volume.h"
#include "volume/csi/driver_clients.h"
#include "volume/host.h"
#include "volume/token_cache.h"

namespace berth::volume::csi_volume {

class MountVolumes {
 public:
  // Borrows both.
  MountVolumes(Host& host, DriverClients& drivers)
      : host_(host), drivers_(drivers), tokens_(host) {}

  Status Stage(const api::Pod& pod, const Volume& volume, const api::Labels& publish_context);
  Status Unstage(const Record& record);
  StatusOr<Published> Publish(const api::Pod& pod, const Volume& volume,
                              const api::Labels& publish_context);
  Status Unpublish(const Record& record, const api::PodUid& pod, const api::VolumeName& name);

  // For volumes of an earlier boot: these do not call the driver (VolumePlugin::ForgetDevice,
  // ForgetPodVolume). They do nothing if the record on disk names another volume.
  Status ForgetDevice(const Record& record);
  Status ForgetPod(const Record& record, const api::PodUid& pod, const api::VolumeName& name);

  // The target path: pods/UID/volumes/kubernetes.io~csi/NAME/mount.
  platform::TargetPath GetTarget(const api::PodUid& pod, const api::VolumeName& name) const;

 private:
  // Refuses a publish from a globalmount that is not this volume's, or whose files have another
  // SELinux context than the pod's processes.
  Status CheckStaged(const Volume& volume) const;
  // Refuses a volume whose SELinux context differs from that of the staged mount.
  Status CheckLabel(const Volume& volume) const;
  Status CheckLifecycle(const Volume& volume, const api::CsiDriver& driver) const;
  StatusOr<DeferredMount> MakeDeferredMount(const Volume& volume,
                                            const platform::TargetPath& target,
                                            const csi::v1::FileSystemMountInfo& info) const;
  // Removes the folder at a staging or target path and the record of it in `folder`, after a first
  // call that certainly did nothing.
  template <typename Path>
  void ForgetNew(const std::string& folder, const Path& path);
  // The same for a volume of an earlier boot.
  template <typename Path>
  Status ForgetOld(const std::string& folder, const Path& path, const Record& record);

  Host& host_;
  DriverClients& drivers_;
  TokenCache tokens_;
};

}  // namespace berth::volume::csi_volume
