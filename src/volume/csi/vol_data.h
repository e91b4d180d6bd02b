// Reads and writes vol_data.json, the record of which volume a mount belongs to (in the kubelet's
// format, a flat object of strings), and compares it with the mount table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/mounts/mount_paths.h"
#include "platform/mounts/mounter.h"
#include "volume/csi/csi_volume.h"
#include "volume/paths.h"

namespace berth::volume::csi_volume {

// Makes the record of a pod's volume or of a block volume.
Json MakePodVolData(const Volume& volume, const api::NodeName& node);
// Makes the record of a staged file system.
Json MakeDeviceVolData(const Volume& volume);

// The SELinux context that a record says the mount has; empty: none was asked for.
std::string SELinuxContextOf(const Json& vol_data);

// Reads the record in `folder`; nullopt if there is none. DATA_LOSS: it is damaged. Any other
// failure: it could not be read now, and may be intact.
StatusOr<std::optional<Json>> ReadVolData(const std::string& folder);

// The state of a volume's folder and its mount point.
struct Finding {
  bool recorded = false;  // by a vol_data.json that names the volume
  bool damaged = false;   // the vol_data.json cannot be understood, and nothing is mounted
  bool mounted = false;
  // Whether the driver may have been called, so that tear-down must call the driver, too. A missing
  // mount is no proof that it was not, because raw block volumes are not mounted, and drivers may
  // stage without a mount (iSCSI, LUKS, nbd).
  bool driver_may_know() const { return recorded || damaged; }
};

// Compares the record in `folder` and the mount at the staging or target path with the volume.
// FAILED_PRECONDITION: the record names another volume, or something is mounted but no record says
// what it is. Any other failure: the record or the mount table cannot be read now.
StatusOr<Finding> InspectFolder(platform::Mounter& mounter, const std::string& folder,
                                const platform::StagingPath& staging, std::string_view driver,
                                const api::VolumeHandle& handle);
StatusOr<Finding> InspectFolder(platform::Mounter& mounter, const std::string& folder,
                                const platform::TargetPath& target, std::string_view driver,
                                const api::VolumeHandle& handle);

// Makes `folder` and writes its record durably; does nothing if exactly that record is there.
Status WriteVolData(const std::string& folder, const Json& data);

// Whether the record in `folder` can be read and belongs to another volume.
bool NamesAnother(const std::string& folder, const Record& record);

// Removes the record and the folder. OK if the folder does not exist. FAILED_PRECONDITION: the
// folder holds something else.
Status RemoveVolData(const std::string& folder);

// FAILED_PRECONDITION: `path` is a mount point; the message names the mount. `after` is the call
// after which nothing should be mounted there.
Status CheckUnmounted(platform::Mounter& mounter, const std::string& path, std::string_view after);
Status CheckUnmounted(const std::vector<platform::MountEntry>& table, const std::string& path,
                      std::string_view after);

// Makes the mount at `path` read-only if it is writable; OK if nothing is mounted there. Other
// mounts of the same file system stay as they are. Any failure: it may still be writable.
Status MakeReadOnly(platform::Mounter& mounter, const std::string& path);

// The properties that a volume's mount must have after a successful call of the driver.
struct Expected {
  std::string_view after;  // the call
  std::string_view driver;
  std::string_view handle;
  bool mounted = false;    // an absent mount is wrong, too
  bool read_only = false;  // it must not be writable
  bool alone = false;      // no other volume may show the same files
};

// Checks the mount at `path`. FAILED_PRECONDITION: data written there would go to this node's own
// disk or into another volume, or the mount is not read-only; the message says which.
Status CheckMounted(platform::Mounter& mounter, const Paths& paths, const std::string& path,
                    const Expected& expected);

}  // namespace berth::volume::csi_volume
