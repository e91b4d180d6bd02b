// Copies a driver's folder so that no half-written file is ever in a copy.
//
// A file is copied only while no process has it open for writing. A read lease (fcntl(2),
// F_SETLEASE) proves this: the kernel refuses it while a writer has the file open, and breaks it
// when a writer opens the file. It is not enough to compare size and times before and after the
// copy, because a write within one tick of the clock may change neither. On file systems without
// leases only this comparison is made.
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
