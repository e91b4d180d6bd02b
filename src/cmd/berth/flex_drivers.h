// The Flexvolume drivers of a process: those of its node agent, and those with which its
// controllers attach. Each of the two has its own prober, with its own copies of the drivers.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "platform/processes/exec.h"
#include "volume/host.h"
#include "volume/paths.h"
#include "volume/plugin_registry.h"

namespace berth::cmd {

// Finds the drivers in `folder` for a node agent. A fault of a driver is recorded as an event of
// the node.
std::unique_ptr<volume::PluginProber> NewNodeFlexProber(const std::string& folder,
                                                        volume::Host& host);

// The drivers of `folder` that attach, for controllers.
class FlexAttachers {
 public:
  // Only this object may use the folder `store`.
  FlexAttachers(const std::string& folder, const std::string& store, const volume::Paths& paths);
  ~FlexAttachers() { Stop(); }

  volume::PluginRegistry& registry() { return *registry_; }
  // Sets the function that is called when a driver came, changed or went. Call it before Start.
  void OnChange(std::function<void(const std::string& driver)> tell) { tell_ = std::move(tell); }
  base::Status Start() { return registry_->Init(); }
  // Ends running calls. Idempotent.
  void Stop();

 private:
  const volume::Paths paths_;
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  std::function<void(const std::string&)> tell_;
  std::unique_ptr<volume::PluginRegistry> registry_;
};

}  // namespace berth::cmd
