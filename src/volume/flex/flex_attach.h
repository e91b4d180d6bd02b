// Makes the calls of a Flexvolume driver for the attach/detach controller, on the machine on which
// the controller runs. A version that attached a volume is held until the volume is detached, even
// if its driver is removed meanwhile. Thread-safe; borrows the paths and the exec.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "volume/flex/driver_call.h"
#include "volume/flex/flex_driver.h"
#include "volume/flex/flex_versions.h"
#include "volume/paths.h"
#include "volume/volume_attacher.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

class FlexAttach : public VolumeAttacher {
 public:
  FlexAttach(platform::Exec& exec, const Paths& paths, std::shared_ptr<const FlexDriver> driver,
             std::shared_ptr<DriverVersions> versions)
      : paths_(paths), versions_(paths, std::move(driver), std::move(versions)), calls_(exec) {}

  // Calls init, before all others. Does nothing for a driver that was removed.
  base::Status Init() { return versions_.Init(calls_); }
  // Whether the driver attaches, by its last init. True for a driver that was removed, because it
  // is listed only if it attached a volume. UNAVAILABLE: init has not succeeded.
  base::StatusOr<bool> Attaches() const {
    return versions_.Attaches([] { return true; });
  }

  // Returns the device on the node, for MountDevice; "" if the driver does not support attach, or
  // has no device. If a failure's outcome is unknown (driver_call.h), call it again.
  base::StatusOr<std::string> Attach(const VolumeSpec& spec, const api::NodeName& node) override;
  // `volume`: the PersistentVolume's name. OK if the driver does not support it. The current
  // version is called if it attaches, else the version that attached the volume. UNAVAILABLE: there
  // is neither.
  base::Status Detach(const api::VolumeName& volume, const api::NodeName& node) override;
  // UNIMPLEMENTED: the driver cannot tell; the volume may be attached.
  base::StatusOr<bool> IsAttached(const VolumeSpec& spec, const api::NodeName& node) override;
  // OK if the driver does not support it: then the volume has the new size already.
  base::Status ExpandVolume(const VolumeSpec& spec, int64_t new_bytes, int64_t old_bytes) override;

  // Ends the running calls. They and all later calls fail with CANCELLED.
  void CancelCalls() { calls_.CancelCalls(); }

 private:
  const Paths& paths_;
  FlexVersions versions_;
  DriverCalls calls_;
};

}  // namespace berth::volume
