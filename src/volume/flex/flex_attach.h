// The calls of a Flexvolume driver that the attach/detach controller makes, on whatever machine it
// runs. Thread-safe; borrows the paths and the exec.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "volume/flex/driver_call.h"
#include "volume/flex/flex_driver.h"
#include "volume/paths.h"
#include "volume/volume_attacher.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

class FlexAttach : public VolumeAttacher {
 public:
  FlexAttach(platform::Exec& exec, const Paths& paths, std::shared_ptr<const FlexDriver> driver)
      : paths_(paths), driver_(std::move(driver)), calls_(exec) {}

  // Calls init, before all others.
  base::StatusOr<DriverCapabilities> Init();

  // The device on the node, for MountDevice; empty where the driver does not support attach, or has
  // no device. A failure whose outcome is unknown (driver_call.h) is to be called again.
  base::StatusOr<std::string> Attach(const VolumeSpec& spec, const std::string& node) override;
  // `volume`: the PersistentVolume's name, or the pod volume's. OK where it is not supported. Works
  // for a driver that was removed meanwhile, too, by its last version.
  base::Status Detach(const std::string& volume, const std::string& node) override;
  // UNIMPLEMENTED: the driver cannot say; no volume is to be taken for detached.
  base::StatusOr<bool> IsAttached(const VolumeSpec& spec, const std::string& node) override;
  // OK where it is not supported: the volume then has the new size.
  base::Status ExpandVolume(const VolumeSpec& spec, int64_t new_bytes, int64_t old_bytes) override;

  // Calls that run are killed, and all later ones fail, with CANCELLED.
  void Cancel() { calls_.Cancel(); }

 private:
  // The current version; for detach of a driver that was removed the last that there was.
  base::StatusOr<DriverVersion> ForDetach();

  const Paths& paths_;
  const std::shared_ptr<const FlexDriver> driver_;
  DriverCalls calls_;
  base::Mutex mutex_;
  std::optional<DriverVersion> last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::volume
