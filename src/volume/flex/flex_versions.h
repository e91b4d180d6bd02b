// Chooses the version of a driver for each step. New work uses the current version. Tear-down uses
// the current version if its init has succeeded, else the version that set the volume up, which has
// been held since then. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/status.h"
#include "volume/flex/driver_call.h"
#include "volume/flex/driver_reply.h"
#include "volume/flex/driver_version.h"
#include "volume/flex/flex_driver.h"
#include "volume/paths.h"

namespace berth::volume {

// The kind of a mount: a device, which only a version that attaches can unmount, or a pod's volume.
enum class FlexFolder { kDevice, kPodVolume };

class FlexVersions {
 public:
  // Borrows the paths.
  FlexVersions(const Paths& paths, std::shared_ptr<const FlexDriver> driver,
               std::shared_ptr<DriverVersions> versions);

  std::string_view driver() const { return driver_->name(); }

  // The version for new work. NOT_FOUND: the driver was removed.
  base::StatusOr<DriverVersion> Current() const { return driver_->Current(); }
  bool removed() const;

  // Calls init of the current version. Does nothing for a driver that was removed.
  base::Status Init(DriverCalls& calls);
  // The answer of init; nullopt: it has not succeeded.
  std::optional<DriverCapabilities> capabilities() const;
  // Whether the driver attaches; for a driver that was removed `when_removed` decides. UNAVAILABLE:
  // init has not succeeded.
  base::StatusOr<bool> Attaches(const std::function<bool()>& when_removed) const;

  // The version that tears down the mount at `folder`: the current version if it can, else the
  // version that is held for the folder, else `recorded`. UNAVAILABLE: there is none.
  base::StatusOr<DriverVersion> ChooseForTearDown(FlexFolder kind, std::string_view folder,
                                                  const DriverVersionId& recorded) const;

  // Keeps a version for `folder`, which must exist below the kubelet folder. (For an attachment,
  // `folder` is only a name, and the version is held until ReleaseHolds.)
  base::Status HoldVersion(const DriverVersion& version, std::string_view folder);
  // Whether a version is held for `folder`: then a mount there belongs to this node agent.
  base::StatusOr<bool> IsHeld(std::string_view folder) const;
  // Releases all versions that are held for `folder`. A failure is logged, because the hold ends at
  // the next start, when the folder does not exist any more.
  void ReleaseHolds(std::string_view folder);

 private:
  std::string UserOf(std::string_view folder) const;

  const Paths& paths_;
  const std::shared_ptr<const FlexDriver> driver_;
  const std::shared_ptr<DriverVersions> versions_;
  mutable base::Mutex mutex_;
  std::optional<DriverCapabilities> capabilities_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::volume
