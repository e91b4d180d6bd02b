// Copies a driver's folder so that no half-written file is ever in a copy.
//
// Nobody has a file open for writing while it is copied: a read lease (fcntl(2), F_SETLEASE) is
// refused while a writer has it open, and is broken if a writer opens it meanwhile. To compare size
// and times before and after is not enough, because a write within one tick of the clock changes
// neither. On file systems without leases this comparison must do.
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
