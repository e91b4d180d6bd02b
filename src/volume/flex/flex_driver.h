// What the prober gives the plugin that it makes for a driver.
//
// A plugin stands for one executable: when another takes its place in the driver folder, another
// plugin is made. What stays the plugin's, and may change under it, is here: a sibling file of the
// executable was replaced (a new version, which needs no init), the driver was removed, somebody is
// writing to its files.
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

  // The version for new work; to be asked before each call. NOT_FOUND: the driver was removed;
  // UNAVAILABLE: its files are being written, another look follows; any other: why what lies in the
  // driver folder is not taken. For users: it names the folder.
  virtual base::StatusOr<DriverVersion> Current() const = 0;
};

// Makes the plugin of a driver. The plugin may outlive the prober. A driver that was removed while
// versions of it are held has a plugin, too, whose Current fails from its beginning after a
// restart.
using MakeFlexPlugin = std::function<std::shared_ptr<VolumePlugin>(
    std::shared_ptr<const FlexDriver> driver, std::shared_ptr<DriverVersions> versions)>;

}  // namespace berth::volume
