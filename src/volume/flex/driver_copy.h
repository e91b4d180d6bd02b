// Copies a driver's folder so that no half-written file is ever in a copy.
//
// Nobody has a file open for writing while it is copied: a read lease (fcntl(2), F_SETLEASE) is
// refused while somebody has, and would be broken by an open for writing meanwhile. That its size
// and times are the same before and after would not do: what is written within a tick of the clock
// changes neither. Where a file system has no leases, they must do.
#pragma once

#include <string>

#include "base/status.h"
#include "volume/flex/driver_folder.h"

namespace berth::volume {

struct DriverDigests {
  std::string folder;      // of all names, permissions and contents; lower-case hex
  std::string executable;  // of the executable's content
};

// Copies `found`, a folder of `drivers` (OpenDrivers), into the folder `to`, which is empty.
// Nothing is synced. UNAVAILABLE: a file is being written, or the folder changed.
base::StatusOr<DriverDigests> CopyDriver(int drivers, const DriverFolder& found, int to);

}  // namespace berth::volume
