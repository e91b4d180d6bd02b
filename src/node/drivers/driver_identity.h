// What a plugin says of itself when it is to be registered.
//
// A plugin announces itself by a registration socket in the kubelet's plugins_registry. A driver
// that nobody announces is found by its own socket at plugins/DRIVER/csi.sock, where the first
// kubelets with CSI expected it (design, "Kubelet to CSI driver": the alpha path).
//
// Failures are the plugin's, UNAVAILABLE while nobody answers. Each call has a deadline.
#pragma once

#include <set>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "node/drivers/csi_node.h"
#include "rpc/csi_client.h"
#include "rpc/registration_client.h"

namespace berth::node {

// Of a registration socket. The endpoint is a plain path; INVALID_ARGUMENT: it is none that a
// socket can have.
base::StatusOr<rpc::PluginInfo> AskRegistrationSocket(const std::string& socket);

// Of a driver's own socket.
base::StatusOr<rpc::PluginInfo> AskDriverSocket(const std::string& socket);
// Whether the socket is in a folder of the driver's name, where alone an unannounced driver is
// taken. INVALID_ARGUMENT: it calls itself otherwise.
base::Status CheckDriverFolder(const std::string& socket, const std::string& driver);

// What may take a driver minutes, and ends with the process. Thread-safe.
class DriverQuestions {
 public:
  // NodeGetInfo of the driver `name` behind `endpoint`.
  base::StatusOr<NodeDriver> NodeInfo(const std::string& name, const std::string& endpoint);
  // Ends the questions that run, and every later one, with CANCELLED.
  void Cancel();

 private:
  base::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<rpc::CsiClient*> asked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::node
