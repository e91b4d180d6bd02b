// Folders at which a driver mounts and unmounts: the common part of a device that pods share and of
// a pod's volume.
//
//   missing ── Mount ──▶ folder 0750, version held ── call ──▶ mounted (or not: a driver may
//      ▲                                               │       mount nothing there)
//      └── folder removed, if this call made it ◀──────┘ the driver says that it failed
//
// If a driver says that it failed and yet left a mount, the mount is undone; until that is done
// nobody gets it. If the outcome is unknown, everything stays as it is. Only the mount table tells
// what is mounted; nothing looks into a mount. Thread-safe for different folders.
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

  // Calls `mount` to mount there by the current version, unless it has done so already; `unmount`
  // undoes it. FAILED_PRECONDITION: somebody else mounted something there.
  base::Status Mount(const std::string& folder, const Call& mount, const Call& unmount);

  // Afterwards the folder is gone, and nothing is held for it. If there is no folder, `unmount` is
  // not called.
  base::Status Unmount(const std::string& folder, const std::string& recorded_version,
                       const Call& unmount);

  // What Kubernetes does for a driver that does not unmount.
  base::Status UnmountPlainly(const std::string& folder);

  // FAILED_PRECONDITION: something is mounted, or files are there. Otherwise the state is as after
  // Unmount.
  base::Status Remove(const std::string& folder);

 private:
  base::Status CheckOurs(const std::string& folder) const;
  base::Status TakeBack(const DriverVersion& version, const std::string& folder,
                        const Call& unmount);

  const FlexFolder kind_;
  Host& host_;
  FlexVersions& versions_;
  base::Mutex mutex_;
  // Folders that a failed call mounted.
  std::set<std::string> distrusted_ ABSL_GUARDED_BY(mutex_);
};

// Whether a failed call may have had its effect.
bool MayHaveHappened(const base::Status& failure);

}  // namespace berth::volume
