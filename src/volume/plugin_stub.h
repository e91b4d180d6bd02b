// What a plugin registry holds: a volume plugin (volume_plugin.h), or a prober that finds plugins
// (plugin_prober.h). Source: the design of dynamic Flexvolume discovery.
#pragma once

#include "base/status.h"

namespace berth::volume {

class PluginStub {
 public:
  virtual ~PluginStub() = default;
  // Makes it ready for use. The registry calls it before any other call that needs it ready, and
  // again after a failure.
  virtual base::Status Init() { return base::OkStatus(); }
};

}  // namespace berth::volume
