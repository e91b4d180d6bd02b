// Mounts the devices of a driver that attaches. The pods of a node share such a mount.
//
//   plugins/kubernetes.io/flexvolume/<driver>/mounts/<volume>/        as in Kubernetes
//   plugins/kubernetes.io/flexvolume/<driver>/volumes/<volume>.json   the mark: written before
//                                       the call, removed after the unmount
//
// Kubernetes knows such a volume only by its name, and two pods may give one name to different
// inline volumes. The mark says which volume is mounted there, and requests for another volume are
// refused. A volume with a damaged mark counts as mounted until it is unmounted, and then the mark
// is set aside (platform/files/record_files.h). Thread-safe for different volumes; borrows all.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "volume/flex/driver_call.h"
#include "volume/flex/flex_mount_points.h"
#include "volume/flex/flex_versions.h"
#include "volume/host.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

class FlexDevices {
 public:
  FlexDevices(Host& host, FlexVersions& versions, DriverCalls& calls)
      : host_(host),
        versions_(versions),
        calls_(calls),
        points_(FlexFolder::kDevice, host, versions) {}

  platform::StagingPath Folder(const api::VolumeName& volume) const;

  // Calls getvolumename, waitforattach and mountdevice, or does what Kubernetes does in their
  // place: nothing without a device, else it mounts the file system, which is made if the device is
  // blank. `device` is the device that attach returned. FAILED_PRECONDITION: another volume of that
  // name is in use, or another program mounted something there.
  base::Status Mount(const VolumeSpec& spec, const std::string& device);
  base::Status Unmount(const api::VolumeName& volume, const DriverVersionId& recorded_version);
  // Removes the folder and the mark of a volume of an earlier boot, of which nothing is mounted any
  // more, without a call of the driver.
  base::Status Forget(const api::VolumeName& volume);

  // The device that was mounted; "": the driver has none, or the volume is not known.
  base::StatusOr<std::string> DeviceOf(const api::VolumeName& volume) const;
  // Whether the volume has a mark: Mount may have mounted it, and Unmount has not succeeded since.
  // True also if the mark cannot be read.
  bool IsKnown(const api::VolumeName& volume) const;
  base::StatusOr<std::vector<std::string>> ListKnownVolumes() const;

 private:
  base::StatusOr<bool> IsInUse(const std::string& device) const;
  base::Status MountPlainly(const std::string& device, const FlexSource& source,
                            const platform::StagingPath& folder);
  base::Status UnmountBy(const DriverVersion& version, const platform::StagingPath& folder);

  Host& host_;
  FlexVersions& versions_;
  DriverCalls& calls_;
  FlexMountPoints points_;
};

}  // namespace berth::volume
