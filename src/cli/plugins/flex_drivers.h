// `berth flex install`, `list` and `remove`: with them a person manages the drivers in a node's
// driver folder. volume/flex/driver_install.h puts drivers in place. A removal removes the
// executable first, because a folder without its executable is no driver.
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
  std::string driver;              // "vendor/driver"; empty: as in the source's path
};

// Checks a driver before it is put in place; `executable` is the path of its executable.
using CheckFlexDriver =
    std::function<base::Status(const std::string& executable, const std::string& driver)>;

// Installs or updates a driver, and returns a sentence that says what was done. A failure before
// the first rename changes nothing; a later failure leaves the old executable. Old files of the
// driver that the new one does not have stay. INVALID_ARGUMENT: the name is invalid, or options
// contradict each other; FAILED_PRECONDITION: the source is no driver, or something else is in its
// place.
base::StatusOr<std::string> InstallFlexDriver(const FlexInstallOptions& options,
                                              const CheckFlexDriver& check);

// The drivers of a folder as a table, and for everything else there the reason why it is no driver.
base::StatusOr<std::string> ListFlexDrivers(const std::string& drivers);

// Removes "vendor/driver" with all that is in its folder, and returns a sentence that says what was
// done. NOT_FOUND: there is no such driver; FAILED_PRECONDITION: something else is in its place.
base::StatusOr<std::string> RemoveFlexDriver(const std::string& drivers, const std::string& driver);

}  // namespace berth::cli
