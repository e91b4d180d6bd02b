// `berth flex install`, `list` and `remove`: drivers in a node's driver folder, by hand.
// They are put in place by volume/flex/driver_install.h; to remove one, the executable goes first.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace berth::cli {

struct FlexInstallOptions {
  std::string drivers;             // the node's driver folder, made if it is not there
  std::string source;              // the executable; or a folder with the whole driver
  std::vector<std::string> files;  // with an executable: files and folders that go beside it
  std::string driver;  // "vendor/driver"; empty: by the source's place (vendor~driver/driver)
};

// Judges a driver before it is put in place, by its executable's path.
using CheckFlexDriver =
    std::function<base::Status(const std::string& executable, const std::string& driver)>;

// Installs or updates a driver; gives what was done, for people. Whatever fails before the first
// rename has changed nothing; a failure later leaves the old executable. Files of the driver there
// that the new one has not stay. INVALID_ARGUMENT: a name, or options that contradict each other;
// FAILED_PRECONDITION: it is no driver, or something that is none stands in its place.
base::StatusOr<std::string> InstallFlexDriver(const FlexInstallOptions& options,
                                              const CheckFlexDriver& check);

// The drivers of a folder as a table, and why what else is there is none.
base::StatusOr<std::string> ListFlexDrivers(const std::string& drivers);

// Removes "vendor/driver" with all that is in its folder; gives what was done. NOT_FOUND: it is not
// there; FAILED_PRECONDITION: something that is no driver's folder stands there.
base::StatusOr<std::string> RemoveFlexDriver(const std::string& drivers, const std::string& driver);

}  // namespace berth::cli
