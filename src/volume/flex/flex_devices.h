// The devices of an attachable driver, which pods of a node share.
//
//   plugins/kubernetes.io/flexvolume/<driver>/mounts/<volume>/      where Kubernetes has them, too
//   plugins/kubernetes.io/flexvolume/<driver>/volumes/<volume>.json the mark: written before the
//                                     call, removed after the unmount
//
// Kubernetes knows such a volume by its name alone, and two pods may give one name to different
// inline volumes: the mark says what is mounted there, and whoever asks for something else is
// refused. Thread-safe for different volumes; borrows all.
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

  std::string Folder(const std::string& volume) const;

  // getvolumename, waitforattach and mountdevice, or what Kubernetes does in their place: nothing
  // without a device, else a file system, made if the device is blank. `device`: as attach gave it.
  // FAILED_PRECONDITION: another volume of that name is there.
  base::Status Mount(const VolumeSpec& spec, const std::string& device);
  base::Status Unmount(const std::string& volume, const std::string& recorded_version);
  // Of an earlier boot: nothing of it is mounted.
  base::Status Forget(const std::string& volume);

  // The device that was mounted; empty: the driver has none, or nothing is known of the volume.
  base::StatusOr<std::string> DeviceOf(const std::string& volume) const;
  // Whether Mount was called for it, and Unmount not yet.
  bool IsKnown(const std::string& volume) const;
  base::StatusOr<std::vector<std::string>> KnownVolumes() const;

 private:
  base::StatusOr<bool> IsInUse(const std::string& device) const;
  base::Status MountPlainly(const std::string& device, const FlexSource& source,
                            const std::string& folder);
  base::Status UnmountBy(const DriverVersion& version, const std::string& folder);

  Host& host_;
  FlexVersions& versions_;
  DriverCalls& calls_;
  FlexMountPoints points_;
};

}  // namespace berth::volume
