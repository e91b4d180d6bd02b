// The common base of the objects in a plugin registry: volume plugins (volume_plugin.h), and
// probers that find plugins (plugin_prober.h). Source: the design of dynamic Flexvolume discovery.
#pragma once

#include "base/status.h"

namespace berth::volume {

class PluginStub {
 public:
  virtual ~PluginStub() = default;
  // Makes the object ready for use. The registry calls this before any other call that needs a
  // ready object, and again after a failure.
  virtual base::Status Init() { return base::OkStatus(); }
};

}  // namespace berth::volume
