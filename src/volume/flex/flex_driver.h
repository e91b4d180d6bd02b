// The object that the prober gives to the plugin that it makes for a driver.
//
// A plugin stands for one executable: when another executable takes its place in the driver folder,
// another plugin is made. This object holds the state that may change while the plugin stays:
// another file of the driver is replaced (a new version, which needs no init), the driver is
// removed, or its files are being written.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "volume/flex/driver_version.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

// Thread-safe.
class FlexDriver {
 public:
  virtual ~FlexDriver() = default;

  // "vendor/driver", or "driver".
  virtual std::string_view name() const = 0;

  // The version for new work; ask before each call. NOT_FOUND: the driver was removed; UNAVAILABLE:
  // its files are being written, and the prober will read them again; any other error: why the
  // content of the driver folder is not accepted. The message is for users, and names the folder.
  virtual base::StatusOr<DriverVersion> Current() const = 0;
};

// Makes the plugin of a driver. The plugin may outlive the prober. A driver that was removed while
// versions of it are held has a plugin, too; after a restart its Current fails from the start.
using MakeFlexPlugin = std::function<std::shared_ptr<VolumePlugin>(
    std::shared_ptr<const FlexDriver> driver, std::shared_ptr<DriverVersions> versions)>;

}  // namespace berth::volume
