// The kubelet's side of plugin registration: package pluginregistration, services served by the
// plugin.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "rpc/outcome.h"

namespace berth::rpc {

struct PluginInfo {
  std::string type;  // "CSIPlugin"
  std::string name;
  std::string endpoint;  // path of the driver's socket; empty: the registration socket itself
  std::vector<std::string> supported_versions;
};

// Registration.GetInfo and NotifyRegistrationStatus on the plugin's registration socket. Each dials
// anew.
base::StatusOr<PluginInfo> GetPluginInfo(const std::string& socket, Timeout timeout);
base::Status NotifyRegistrationStatus(const std::string& socket, bool registered,
                                      const std::string& error, Timeout timeout);

}  // namespace berth::rpc
