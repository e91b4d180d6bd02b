// Installs a driver into a driver folder in such a way that no reader ever sees a part of it.
//
//   DRIVERS/.berth-install/vendor~driver/   the stage: a driver is put here first and
//                                           checked; no driver's name begins with a dot
//   DRIVERS/vendor~driver/                  its files are renamed into place, the executable last
//
// So no driver runs with a part of its files, and a process that runs while its driver is replaced
// keeps its own file. The executable is always a new file, so that watchers of the folder see a new
// driver. A crash leaves only a dot folder, which the next installation removes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"
#include "volume/flex/driver_folder.h"

namespace berth::volume {

// Whether a folder exists at `path`. FAILED_PRECONDITION: a file or a symlink is there.
base::StatusOr<bool> HasDriverFolder(const std::string& path);

// Syncs a file, or the names in a folder, to disk. A symlink at `path` is refused.
base::Status SyncPath(const std::string& path);

// One installation. A lock allows only one at a time for each driver folder. Not thread-safe.
class DriverInstallation {
 public:
  // Begins to install "vendor/driver" into `drivers`, which is made if it is missing.
  // INVALID_ARGUMENT: the driver's name is invalid; FAILED_PRECONDITION: another installation runs.
  static base::StatusOr<std::unique_ptr<DriverInstallation>> BeginInstallation(
      const std::string& drivers, const std::string& driver);
  // Removes the stage.
  ~DriverInstallation();
  DriverInstallation(const DriverInstallation&) = delete;
  DriverInstallation& operator=(const DriverInstallation&) = delete;

  // The caller makes this folder and puts the driver there.
  std::string staged() const { return stage_ + "/" + folder_; }
  std::string target() const { return drivers_ + "/" + folder_; }

  // Reads the stage, by the rules that hold for drivers in place.
  base::StatusOr<DriverFolder> ReadStage() const;
  // Moves the stage into place. A failure before the first rename changes nothing; a later failure
  // leaves the old executable. Old files of the driver that the new one does not have stay.
  base::Status PlaceDriver(const DriverFolder& driver) const;

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
