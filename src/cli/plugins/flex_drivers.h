// `berth flex install`, `list` and `remove`: a person manages the drivers in a node's driver folder
// with them. volume/flex/driver_install.h puts drivers in place. A removal removes the executable
// first, because a folder without its executable is not a driver.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "platform/mounts/mounter.h"

namespace berth::cli {

struct FlexInstallOptions {
  std::string drivers;             // the node's driver folder; created if it does not exist
  std::string source;              // the executable; or a folder with the whole driver
  std::vector<std::string> files;  // with an executable: files and folders that go beside it
  std::string driver;              // "vendor/driver"; empty: as in the source's path
};

// Checks a driver before it is put in place; `executable` is the path of its executable.
using CheckFlexDriver =
    std::function<base::Status(const std::string& executable, const std::string& driver)>;

// Installs or updates a driver, and returns a sentence that says what was done. A failure before
// the first rename changes nothing; a later failure leaves the old executable. Files of the old
// version that the new version does not have stay. INVALID_ARGUMENT: the name is invalid, or
// options contradict each other. FAILED_PRECONDITION: the source is not a driver, or another file
// has the place of its folder.
base::StatusOr<std::string> InstallFlexDriver(const FlexInstallOptions& options,
                                              const CheckFlexDriver& check);

// Returns the drivers of a folder as a table. Other entries of the folder are listed with the
// reason why they are not drivers.
base::StatusOr<std::string> ListFlexDrivers(const std::string& drivers);

struct FlexRemoveOptions {
  std::string drivers;                       // the node's driver folder
  std::string driver;                        // "vendor/driver"
  std::vector<platform::MountEntry> mounts;  // in the mount namespace of the caller
  // The path of the node's root folder, "" for the caller's own: by its /proc the kubelet is found,
  // whose mounts count as well.
  std::string root;
  // The kubelet folder of a standalone Berth, whose volumes do not count, because Berth keeps a
  // copy of a driver for its mounted volumes.
  std::string berth_kubelet;
  bool now = false;  // also while a kubelet has volumes of the driver mounted
};

// Removes the driver with everything in its folder, and returns a sentence that says what was done.
// NOT_FOUND: there is no such driver. FAILED_PRECONDITION: another file has the place of its
// folder, or a kubelet has volumes of the driver mounted, which it could not unmount any more.
base::StatusOr<std::string> RemoveFlexDriver(const FlexRemoveOptions& options);

}  // namespace berth::cli
