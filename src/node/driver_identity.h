// What a plugin says of itself when it is to be registered.
//
// A plugin announces itself by a registration socket in the kubelet's plugins_registry. A driver
// that nobody announces is found by its own socket at plugins/DRIVER/csi.sock, where the first
// kubelets with CSI expected it (design, "Kubelet to CSI driver": the alpha path).
//
// Failures are the plugin's, UNAVAILABLE while nobody answers. Each call has a deadline.
#pragma once

#include <string>

#include "base/status.h"
#include "node/csi_node.h"
#include "rpc/registration_client.h"

namespace berth::node {

// Of a registration socket. The endpoint is a plain path.
base::StatusOr<rpc::PluginInfo> AskRegistrationSocket(const std::string& socket);

// Of a driver's own socket, in a folder of the driver's name. INVALID_ARGUMENT: it calls itself
// otherwise.
base::StatusOr<rpc::PluginInfo> AskDriverSocket(const std::string& socket);

// NodeGetInfo of the driver `name` behind `endpoint`.
base::StatusOr<NodeDriver> AskNodeInfo(const std::string& name, const std::string& endpoint);

}  // namespace berth::node
