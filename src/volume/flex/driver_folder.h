// Reads the driver folder of Flexvolume, and finds the drivers in it.
//
//   DRIVERS/vendor~driver/driver   the executable of "vendor/driver"
//   DRIVERS/driver/driver          the executable of "driver"
//
// Names that begin with '.' are ignored, because an installer writes there and renames. Everything
// is opened beneath its folder's descriptor, so nothing leads through a symlink or into a mount,
// and no file is opened that could block. All counts are bounded. A folder that is left out has a
// reason, and does not hide others. Source: the design of dynamic Flexvolume discovery.
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
  FileIdentity identity;  // none for folders, in which unrelated names come and go
  std::string target;     // of a link
  bool operator==(const DriverFile&) const = default;
};

struct DriverFolder {
  std::string driver;             // "vendor/driver"
  std::string folder;             // "vendor~driver"
  std::vector<DriverFile> files;  // sorted by path, so that a folder comes before what is in it
  const DriverFile& executable() const;
  bool operator==(const DriverFolder&) const = default;
};

struct DriverLimits {
  size_t folders = 16384;  // looked at
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

// "vendor/driver" of the folder "vendor~driver". INVALID_ARGUMENT: no qualified name.
base::StatusOr<std::string> DriverOfFolder(std::string_view folder);
// "vendor~driver", as in paths.
std::string FolderOfDriver(std::string_view driver);

base::StatusOr<base::UniqueFd> OpenDrivers(const std::string& path);

// All drivers of the folder that OpenDrivers opened.
base::StatusOr<DriverScan> ScanDrivers(int drivers, const DriverLimits& limits = {});

// One of them. NOT_FOUND: its folder or the executable is not there; FAILED_PRECONDITION,
// INVALID_ARGUMENT: it is no driver; RESOURCE_EXHAUSTED: it is too large.
base::StatusOr<DriverFolder> ReadDriver(int drivers, const std::string& folder,
                                        const DriverLimits& limits = {});

}  // namespace berth::volume
