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
  // Whom to tell that Probe may have news; called before Init. The call comes on a thread of the
  // prober's, returns soon, and may come although nothing changed.
  virtual void OnNews(std::function<void()> tell) = 0;

  // All plugins that are there now; nullopt, at once and without a look at anything outside the
  // process: as in the last list. What did not change is the same object as in that list, so it is
  // not initialised again. With an error the last list holds.
  virtual base::StatusOr<std::optional<PluginList>> Probe() = 0;

  // A plugin of that name although none is there, for what it set up earlier: what is not mounted
  // any more wants nobody's help to be forgotten. It sets up nothing. Null: the name is not one of
  // this prober's.
  virtual std::shared_ptr<VolumePlugin> Absent(std::string_view name) const = 0;

  // Of one that the last list has: FAILED_PRECONDITION, it was removed and is listed for what it
  // set up alone, which the message names; UNAVAILABLE, the like, for what took its place cannot be
  // used. Asks nothing outside the process.
  virtual base::Status StateOf(std::string_view name) const = 0;

  // Why there is no plugin for `spec`, if such volumes are this prober's concern; else empty.
  virtual std::string WhyNone(const VolumeSpec& spec) const = 0;
};

}  // namespace berth::volume
