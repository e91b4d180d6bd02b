// The calls of a Flexvolume driver that the attach/detach controller makes, on whatever machine it
// runs. A version that attached a volume is held until that is detached, also when its driver is
// removed meanwhile. Thread-safe; borrows the paths and the exec.
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

  // Calls init, before all others. Nothing for a driver that was removed.
  base::Status Init() { return versions_.Init(calls_); }
  // Of the last init. Of a driver that was removed: it attached, or nobody would have it.
  // UNAVAILABLE: init has not succeeded.
  base::StatusOr<bool> Attaches() const {
    return versions_.Attaches([] { return true; });
  }

  // The device on the node, for MountDevice; empty where the driver does not support attach, or has
  // no device. A failure whose outcome is unknown (driver_call.h) is to be called again.
  base::StatusOr<std::string> Attach(const VolumeSpec& spec, const std::string& node) override;
  // `volume`: the PersistentVolume's name. OK where it is not supported. By the current version if
  // it attaches, else by the one that attached it. UNAVAILABLE: there is neither.
  base::Status Detach(const std::string& volume, const std::string& node) override;
  // UNIMPLEMENTED: the driver cannot say; no volume is to be taken for detached.
  base::StatusOr<bool> IsAttached(const VolumeSpec& spec, const std::string& node) override;
  // OK where it is not supported: the volume then has the new size.
  base::Status ExpandVolume(const VolumeSpec& spec, int64_t new_bytes, int64_t old_bytes) override;

  // Calls that run are killed, and all later ones fail, with CANCELLED.
  void Cancel() { calls_.Cancel(); }

 private:
  const Paths& paths_;
  FlexVersions versions_;
  DriverCalls calls_;
};

}  // namespace berth::volume
