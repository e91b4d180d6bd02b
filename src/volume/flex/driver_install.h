// Puts a driver into a driver folder so that no driver is ever seen in part.
//
//   DRIVERS/.berth-install/vendor~driver/   a driver is staged here and checked: no name that
//                                           begins with a dot is a driver's
//   DRIVERS/vendor~driver/                  its files are renamed into place, the executable last
//
// So no driver runs in part, or without its other files, and what is running while its driver is
// replaced keeps the file that it is. The executable is always a new file, which whoever watches
// the folder sees as a new driver. What a crash leaves is a dot folder, which the next installation
// clears away.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"
#include "volume/flex/driver_folder.h"

namespace berth::volume {

// Whether a driver's own folder is at `path`. FAILED_PRECONDITION: something else is.
base::StatusOr<bool> HasDriverFolder(const std::string& path);

// Writes what is at `path`, a file or a folder's names, to disk.
base::Status SyncPath(const std::string& path);

// One at a time for each driver folder, held by a lock. Not thread-safe.
class DriverInstallation {
 public:
  // Of "vendor/driver" into `drivers`, which is made if it is not there. INVALID_ARGUMENT: no
  // driver is called so; FAILED_PRECONDITION: another installation runs.
  static base::StatusOr<std::unique_ptr<DriverInstallation>> Begin(const std::string& drivers,
                                                                   const std::string& driver);
  // Clears the stage away.
  ~DriverInstallation();
  DriverInstallation(const DriverInstallation&) = delete;
  DriverInstallation& operator=(const DriverInstallation&) = delete;

  // Empty, and to be made by whoever stages the driver.
  std::string staged() const { return stage_ + "/" + folder_; }
  std::string target() const { return drivers_ + "/" + folder_; }

  // What is staged, by the rules that hold for drivers in place.
  base::StatusOr<DriverFolder> ReadStage() const;
  // Puts it into place. What fails before the first rename has changed nothing; a failure later
  // leaves the old executable. Files of the driver there that the new one has not stay.
  base::Status Place(const DriverFolder& driver) const;

 private:
  DriverInstallation(std::string drivers, std::string folder);
  base::Status MakeDurable(const DriverFile& file) const;

  const std::string drivers_, folder_, stage_;
  base::UniqueFd lock_;
};

// Installs a driver that is one file, with these bytes, as `vendor/driver`.
base::Status InstallDriverFile(const std::string& drivers, const std::string& driver,
                               std::string_view content);

}  // namespace berth::volume
