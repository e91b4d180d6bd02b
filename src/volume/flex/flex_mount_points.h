// Has a driver mount and unmount at folders. It is the common part of a device that pods share and
// of a pod's volume.
//
//   missing ── Mount ──▶ folder 0750, version held ── call ──▶ mounted (or not: a driver may
//      ▲                                               │       mount nothing there)
//      └── folder removed, if this call made it ◀──────┘ the driver says that it failed
//
// If a driver says that it failed but left a mount, the mount is undone; until then no pod gets it.
// If the outcome is unknown, everything stays as it is. Only the mount table tells what is mounted,
// and no mount is opened. Thread-safe for different folders.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "volume/flex/driver_version.h"
#include "volume/flex/flex_versions.h"
#include "volume/host.h"

namespace berth::volume {

class FlexMountPoints {
 public:
  using Call = std::function<base::Status(const DriverVersion& version)>;

  // Borrows both.
  FlexMountPoints(FlexFolder kind, Host& host, FlexVersions& versions)
      : kind_(kind), host_(host), versions_(versions) {}

  base::StatusOr<bool> IsMounted(const std::string& folder) const;

  // Calls `mount` with the current version to mount at `folder`, unless it is mounted already;
  // `unmount` undoes a mount that a failed call left. FAILED_PRECONDITION: another program mounted
  // something there.
  base::Status Mount(const std::string& folder, const Call& mount, const Call& unmount);

  // Calls `unmount` with the version that tears down, removes the folder, and releases the versions
  // that are held for it. If there is no folder, `unmount` is not called. FAILED_PRECONDITION:
  // something is still mounted there, or the folder is not empty.
  base::Status Unmount(const std::string& folder, const DriverVersionId& recorded_version,
                       const Call& unmount);

  // Unmounts without the driver, as Kubernetes does for a driver that does not support unmount.
  base::Status UnmountPlainly(const std::string& folder);

  // Removes the folder and releases its versions, without a call of the driver.
  // FAILED_PRECONDITION: something is mounted there, or the folder is not empty.
  base::Status RemoveMountPoint(const std::string& folder);

 private:
  base::Status CheckOwnMount(const std::string& folder) const;
  base::Status UndoMount(const DriverVersion& version, const std::string& folder,
                         const Call& unmount);

  const FlexFolder kind_;
  Host& host_;
  FlexVersions& versions_;
  base::Mutex mutex_;
  // The folders at which a failed call left a mount.
  std::set<std::string> distrusted_ ABSL_GUARDED_BY(mutex_);
};

// Whether a failed call may have had its effect.
bool MayHaveHappened(const base::Status& failure);

}  // namespace berth::volume
