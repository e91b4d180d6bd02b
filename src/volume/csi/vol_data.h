// vol_data.json: which volume a mount belongs to (in the kubelet's format, a flat object of
// strings), and the comparison of that record with the mount table (DESIGN rule 7).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/mounts/mounter.h"
#include "volume/csi/csi_volume.h"
#include "volume/paths.h"

namespace berth::volume::csi_volume {

// The record of a pod's volume or of a block volume.
Json PodVolData(const Volume& volume, const api::NodeName& node);
// The record of a staged file system.
Json DeviceVolData(const Volume& volume);

// The SELinux context that a record says the mount has; empty: none was asked for.
std::string SELinuxContextOf(const Json& vol_data);

// The record in `folder`; nullopt if there is none. DATA_LOSS: it is damaged. Any other failure: it
// could not be read now, and may be intact.
StatusOr<std::optional<Json>> ReadVolData(const std::string& folder);

// What is found in a volume's folder and at its mount point.
struct Finding {
  bool recorded = false;  // by a vol_data.json that names the volume
  bool damaged = false;   // the vol_data.json cannot be understood, and nothing is mounted
  bool mounted = false;
  // Whether a call of the driver may have been made, so that tear-down must call the driver, too.
  // That nothing is mounted proves nothing: raw block volumes are not mounted, and drivers may
  // stage without a mount (iSCSI, LUKS, nbd).
  bool driver_may_know() const { return recorded || damaged; }
};

// FAILED_PRECONDITION: the folder's record names another volume, or something is mounted at
// `mount_point` although no record says what. Any other failure: the record cannot be read now.
StatusOr<Finding> Inspect(platform::Mounter& mounter, const std::string& folder,
                          const std::string& mount_point, std::string_view driver,
                          std::string_view handle);

// Makes `folder` and writes its record durably; does nothing if exactly that record is there.
Status WriteVolData(const std::string& folder, const Json& data);

// True if the record in `folder` can be read and is another volume's.
bool NamesAnother(const std::string& folder, const Record& record);

// Removes record and folder. FAILED_PRECONDITION: the folder holds something else.
Status RemoveVolData(const std::string& folder);

// FAILED_PRECONDITION, naming what is mounted, if `path` is a mount point. `after` is the call
// after which nothing should be mounted.
Status CheckUnmounted(platform::Mounter& mounter, const std::string& path, std::string_view after);
Status CheckUnmounted(const std::vector<platform::MountEntry>& table, const std::string& path,
                      std::string_view after);

// What must be at a volume's mount point after the driver said OK.
struct Expected {
  std::string_view after;  // the call
  std::string_view driver;
  std::string_view handle;
  bool mounted = false;    // an absent mount is wrong, too
  bool read_only = false;  // it must not be writable
  bool alone = false;      // no other volume may show the same files
};

// FAILED_PRECONDITION, naming what is found: data written there would go to this node's own disk,
// or into another volume.
Status CheckMounted(platform::Mounter& mounter, const Paths& paths, const std::string& path,
                    const Expected& expected);

}  // namespace berth::volume::csi_volume
