// Reads the driver folder of Flexvolume, and finds the drivers in it.
//
//   DRIVERS/vendor~driver/driver   the executable of "vendor/driver"
//   DRIVERS/driver/driver          the executable of "driver"
//
// Names that begin with '.' are ignored, because an installer writes files under such names and
// then renames them. Each entry is opened beneath its folder's descriptor, so no path leads through
// a symlink or into a mount, and no file is opened that could block. All counts are bounded. A
// folder that is left out is reported with the reason, and the others are still found. Source: the
// design of dynamic Flexvolume discovery.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::volume {

// Identifies a file and its last change.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t modified_ns = 0;
  int64_t changed_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};

FileIdentity IdentityOf(const struct stat& st);

struct DriverFile {
  enum class Kind { kFile, kFolder, kLink };
  std::string path;  // below the driver's own folder
  Kind kind = Kind::kFile;
  uint32_t mode = 0;      // permissions
  FileIdentity identity;  // all 0 for folders, because their times also change with ignored names
  std::string target;     // of a link
  bool operator==(const DriverFile&) const = default;
};

struct DriverFolder {
  std::string driver;             // "vendor/driver"
  std::string folder;             // "vendor~driver"
  std::vector<DriverFile> files;  // sorted by path, so that a folder comes before its content
  const DriverFile& executable() const;
  bool operator==(const DriverFolder&) const = default;
};

struct DriverLimits {
  size_t folders = 16384;  // that are read
  size_t drivers = 2048;
  size_t files = 1024;                   // of a driver
  int depth = 8;                         // of folders in a driver's own
  uint64_t bytes = uint64_t{512} << 20;  // of a driver
};

struct DriverScan {
  std::vector<DriverFolder> drivers;  // sorted by folder
  // The folders that are no drivers, and why; under the empty name, a failure of the driver folder
  // itself. NOT_FOUND: there is no executable (yet).
  std::map<std::string, base::Status> left_out;
};

// Returns "vendor/driver" for the folder "vendor~driver". INVALID_ARGUMENT: it is no qualified
// name.
base::StatusOr<std::string> DriverOfFolder(std::string_view folder);
// Returns "vendor~driver" for the driver "vendor/driver".
std::string FolderOfDriver(std::string_view driver);

// Opens the driver folder. NOT_FOUND.
base::StatusOr<base::UniqueFd> OpenDrivers(const std::string& path);

// Reads all drivers of the folder that OpenDrivers opened.
base::StatusOr<DriverScan> ScanDrivers(int drivers, const DriverLimits& limits = {});

// Reads the driver in `folder`. NOT_FOUND: the folder or the executable does not exist;
// FAILED_PRECONDITION, INVALID_ARGUMENT: it is no driver; RESOURCE_EXHAUSTED: it is too large.
base::StatusOr<DriverFolder> ReadDriver(int drivers, const std::string& folder,
                                        const DriverLimits& limits = {});

}  // namespace berth::volume
