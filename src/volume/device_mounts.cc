#include "volume/device_mounts.h"

#include <sys/sysmacros.h>

namespace berth::volume {

base::StatusOr<bool> ShowsDevice(Host& host, const platform::MountEntry& mount, dev_t number) {
  if (mount.fs_type != "btrfs") return makedev(mount.major, mount.minor) == number;
  ASSIGN_OR_RETURN(const auto found, host.LookAtDevices({mount.source}));
  return found.front().present && found.front().block && found.front().number == number;
}

}  // namespace berth::volume
