// The client of plugin registration, which the kubelet is: the service Registration of package
// pluginregistration, which the plugin serves.
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

// Call Registration.GetInfo and NotifyRegistrationStatus on the plugin's registration socket. Each
// call makes a connection, and blocks for at most `timeout`. UNAVAILABLE: no process listens.
// INVALID_ARGUMENT: `socket` is not the path of a socket.
base::StatusOr<PluginInfo> GetPluginInfo(const std::string& socket, Timeout timeout);
base::Status NotifyRegistrationStatus(const std::string& socket, bool registered,
                                      const std::string& error, Timeout timeout);

}  // namespace berth::rpc
