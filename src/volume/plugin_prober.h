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
  // Sets the function to call when Probe may have news; called before Init. The function is called
  // on a thread of the prober, must return soon, and may be called although nothing changed.
  virtual void OnNews(std::function<void()> tell) = 0;

  // All plugins that exist now. nullopt: nothing has changed since the last list; this comes at
  // once and without a look outside the process. A plugin that did not change is the same object as
  // in the last list, so it is not initialised again. After an error the last list holds.
  virtual base::StatusOr<std::optional<PluginList>> Probe() = 0;

  // A plugin of that name although none exists now, for volumes that it set up earlier: what is not
  // mounted any more can be forgotten without a driver. It sets up nothing. Null: the name does not
  // belong to this prober.
  virtual std::shared_ptr<VolumePlugin> Absent(std::string_view name) const = 0;

  // The state of a plugin in the last list. FAILED_PRECONDITION: it was removed and is listed only
  // for what it set up, which the message names. UNAVAILABLE: the same, because what took its place
  // cannot be used. Asks nothing outside the process.
  virtual base::Status StateOf(std::string_view name) const = 0;

  // Why there is no plugin for `spec`, if such volumes belong to this prober; else empty.
  virtual std::string WhyNone(const VolumeSpec& spec) const = 0;
};

}  // namespace berth::volume
