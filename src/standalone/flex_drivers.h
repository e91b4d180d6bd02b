// The Flexvolume drivers of a process. Its node agent and its controllers, which attach volumes,
// each have a prober of their own, with their own copies of the drivers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/processes/exec.h"
#include "volume/host.h"
#include "volume/paths.h"
#include "volume/plugin_registry.h"

namespace berth::standalone {

// Makes the prober that finds the drivers in `folder` for a node agent. Faults of drivers become
// events of the node.
std::unique_ptr<volume::PluginProber> NewNodeFlexProber(const std::string& folder,
                                                        volume::Host& host);

// Moves the copies of drivers that an older Berth kept in <data>/api, where no pod could run them,
// to the folder `store` of FlexAttachers, which is below the data folder. A version that attached a
// volume must be able to detach it. A failure is only logged.
void MoveOldDriverCopies(const std::string& data_folder, const std::string& store);

// The Flexvolume drivers that attach volumes, for controllers.
class FlexAttachers {
 public:
  // Returns the Exec that runs the calls of a driver. It outlives this object's Stop.
  using ExecOf = std::function<platform::Exec&(std::string_view driver)>;

  // The drivers are in `folder`. Their copies go to the folder `store`, which only this object may
  // use. A pod can run them only if it sees that folder at the same path. `exec_of` is called from
  // Start on.
  FlexAttachers(const std::string& folder, const std::string& store, const volume::Paths& paths,
                ExecOf exec_of);
  ~FlexAttachers() { Stop(); }

  volume::PluginRegistry& registry() { return *registry_; }
  // Sets the function that is called when a driver was added, changed or removed. Call it before
  // Start.
  void SetOnChange(std::function<void(const std::string& driver)> on_change) {
    on_change_ = std::move(on_change);
  }
  base::Status Start() { return registry_->Init(); }
  // Ends running calls. Idempotent.
  void Stop();

 private:
  const volume::Paths paths_;
  const ExecOf exec_of_;
  std::function<void(const std::string&)> on_change_;
  std::unique_ptr<volume::PluginRegistry> registry_;
};

}  // namespace berth::standalone
