// Folders that a driver mounts at and unmounts: what is the same for a device that pods share and
// for a pod's volume.
//
//   missing ── Mount ──▶ folder 0750, version held ── call ──▶ mounted (or not: a driver may
//      ▲                                               │       mount nothing there)
//      └── folder removed, if this call made it ◀──────┘ the driver says that it failed
//
// A driver that says that it failed and left a mount has it taken back; until that is done nobody
// gets it. What may have happened, for its outcome is unknown, stays as it is. Mounted is what the
// mount table shows: nothing looks into a mount. Thread-safe for different folders.
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

  // Has `mount` mount there by the current version, unless it did already; `unmount` takes back.
  // FAILED_PRECONDITION: somebody else mounted something there.
  base::Status Mount(const std::string& folder, const Call& mount, const Call& unmount);

  // The folder is gone afterwards, and nothing is held for it. `unmount` is not called where there
  // is no folder.
  base::Status Unmount(const std::string& folder, const std::string& recorded_version,
                       const Call& unmount);

  // The default of Kubernetes for a driver that does not unmount.
  base::Status UnmountPlainly(const std::string& folder);

  // FAILED_PRECONDITION: something is mounted, or files lie there. Else as after Unmount.
  base::Status Remove(const std::string& folder);

 private:
  base::Status CheckOurs(const std::string& folder) const;
  base::Status TakeBack(const DriverVersion& version, const std::string& folder,
                        const Call& unmount);

  const FlexFolder kind_;
  Host& host_;
  FlexVersions& versions_;
  base::Mutex mutex_;
  // Mounted by a call that failed.
  std::set<std::string> distrusted_ ABSL_GUARDED_BY(mutex_);
};

// Whether a call that failed may have done what it was to do.
bool MayHaveHappened(const base::Status& failure);

}  // namespace berth::volume
