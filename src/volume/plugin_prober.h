// Finds volume plugins that come and go while the process runs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "volume/plugin_stub.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

using PluginList = std::vector<std::shared_ptr<VolumePlugin>>;

class PluginProber : public PluginStub {
 public:
  // Sets the function to call when the answer of ListPlugins may have changed; call this before
  // Init. The function is called on a thread of the prober, must return soon, and may be called
  // although nothing changed.
  virtual void SetOnChange(std::function<void()> on_change) = 0;

  // Returns all plugins that exist now. nullopt: nothing has changed since the last list; this
  // answer reads nothing outside the process and does not block. A plugin that did not change is
  // the same object as in the last list, so it is not initialised again. After an error the last
  // list stays valid.
  virtual base::StatusOr<std::optional<PluginList>> ListPlugins() = 0;

  // Makes a plugin of that name although none exists now, for volumes that it set up earlier: those
  // that are not mounted any more can be forgotten without a driver. It sets up nothing. nullptr:
  // the name does not belong to this prober.
  virtual std::shared_ptr<VolumePlugin> FindAbsent(std::string_view name) const = 0;

  // The state of a plugin in the last list. FAILED_PRECONDITION: its driver was removed, and it is
  // listed only for the volumes that it set up, which the message names. UNAVAILABLE: it is listed
  // only for those volumes, because its driver cannot be used now. Reads nothing outside the
  // process.
  virtual base::Status GetState(std::string_view name) const = 0;

  // Returns, as a text for people, why there is no plugin for `spec`. "": such volumes do not
  // belong to this prober.
  virtual std::string ExplainMissing(const VolumeSpec& spec) const = 0;
};

}  // namespace berth::volume
