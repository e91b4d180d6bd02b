// Flexvolume drivers as a process has them: on its node, and where its controllers attach. Each
// side has a prober of its own, with its own copies of the drivers.
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

// Finds the drivers in `folder` for a node agent. What is wrong with one is an event of its node.
std::unique_ptr<volume::PluginProber> NewNodeFlexProber(const std::string& folder,
                                                        volume::Host& host);

// The drivers of `folder` that attach, for controllers.
class FlexAttachers {
 public:
  // `store` is a folder of this alone.
  FlexAttachers(const std::string& folder, const std::string& store, const volume::Paths& paths);
  ~FlexAttachers() { Stop(); }

  volume::PluginRegistry& registry() { return *registry_; }
  // Whom to tell that a driver came, changed or went; before Start.
  void OnChange(std::function<void(const std::string& driver)> tell) { tell_ = std::move(tell); }
  base::Status Start() { return registry_->Init(); }
  // Calls that run are ended. Idempotent.
  void Stop();

 private:
  const volume::Paths paths_;
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  std::function<void(const std::string&)> tell_;
  std::unique_ptr<volume::PluginRegistry> registry_;
};

}  // namespace berth::cmd
