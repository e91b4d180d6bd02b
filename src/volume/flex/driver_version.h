// The versions of a Flexvolume driver, and their users.
//
// A driver never runs from the driver folder, because an installer may write there. It runs from a
// copy, which is made when the folder is complete, and which no process changes. So a change in the
// driver folder does not affect a running call, or the unmount of a volume that an earlier version
// mounted.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/id.h"
#include "base/status.h"

namespace berth::volume {

// The id of a version, where it stands beside the name of a driver or a folder.
using DriverVersionId = base::Id<struct DriverVersionIdKind>;

struct DriverVersion {
  std::string driver;      // "vendor/driver", or "driver"
  std::string executable;  // absolute path of the copy
  std::string id;          // lower-case hex; names the version in records
  // Running calls keep it: the copy exists at least as long as this object, or a copy of it, lives.
  std::shared_ptr<const void> pin = nullptr;
};

// The copies of drivers. Thread-safe.
class DriverVersions {
 public:
  virtual ~DriverVersions() = default;

  // Finds a version by its id, and pins it. NOT_FOUND: that version was never copied, or it was
  // removed because it had no hold.
  virtual base::StatusOr<DriverVersion> FindVersion(std::string_view driver,
                                                    const DriverVersionId& id) const = 0;

  // Finds the version that `user` holds, and pins it; the last one if there are several. nullopt:
  // none.
  virtual base::StatusOr<std::optional<DriverVersion>> FindHeldVersion(
      std::string_view driver, std::string_view user) const = 0;

  // Keeps a version until it is released, also over restarts. `user` names a pod's volume or a
  // device, as a path below the kubelet folder ("pods/UID/volumes/vendor~driver/NAME"). If that
  // path does not exist any more at the next start, the hold ends. Idempotent. NOT_FOUND: the
  // version is not kept.
  virtual base::Status HoldVersion(const DriverVersion& version, std::string_view user) = 0;
  // Ends a hold. OK if there is none.
  virtual base::Status ReleaseVersion(const DriverVersion& version, std::string_view user) = 0;
};

}  // namespace berth::volume
