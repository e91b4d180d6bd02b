// Asks a plugin for its identity, before it is registered.
//
// A plugin announces itself by a registration socket in the kubelet's plugins_registry. A driver
// without such a socket is found by its own socket at plugins/DRIVER/csi.sock, where the first
// kubelets with CSI (Kubernetes 1.9) expected it.
//
// Errors are the plugin's own; UNAVAILABLE means that no process answers. Each call has a deadline.
#pragma once

#include <set>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "node/drivers/csi_node.h"
#include "rpc/registration_client.h"

namespace berth::rpc {
class CsiClient;
}

namespace berth::node {

// Asks a registration socket (GetInfo). The result's endpoint is a plain path. INVALID_ARGUMENT:
// the endpoint is not the path of a socket.
base::StatusOr<rpc::PluginInfo> AskRegistrationSocket(const std::string& socket);

// Asks a driver's own socket (GetPluginInfo).
base::StatusOr<rpc::PluginInfo> AskDriverSocket(const std::string& socket);
// Checks that the socket is in a folder with the driver's name, because an unannounced driver is
// accepted only there. INVALID_ARGUMENT: the driver has another name.
base::Status CheckDriverFolder(const std::string& socket, const std::string& driver);

// Asks drivers questions that may take minutes, and cancels them when this process ends.
// Thread-safe.
class DriverQuestions {
 public:
  // Calls NodeGetInfo of the driver `name` at the socket `endpoint`; the deadline is two minutes.
  base::StatusOr<NodeDriver> AskNodeInfo(const std::string& name, const std::string& endpoint);
  // Ends the running questions, and all later ones, with CANCELLED.
  void Cancel();

 private:
  base::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<rpc::CsiClient*> asked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::node
