// The roles of `berth node --roles`: registrar and liveness run beside a CSI driver on a node, and
// utilities runs beside a kubelet (roles/utilities_role.h).
//
//   /healthz             the driver's Probe; the registrar's state, if no driver is probed; else
//                        "ok", because the process runs
//   /healthz/registrar   whether the driver is announced to the kubelet; 404: there is no
//                        registration socket
#pragma once

#include <memory>

#include "base/status.h"
#include "roles/process_options.h"

namespace berth::roles {

class NodeProcess {
 public:
  // INVALID_ARGUMENT: an option is missing or invalid. UNAVAILABLE: the HTTP address is in use.
  // Other errors are those of UtilitiesRole::Start. Succeeds also while the drivers and the kubelet
  // do not run.
  static base::StatusOr<std::unique_ptr<NodeProcess>> Start(const ProcessOptions& options);
  // Stops the roles and the HTTP server.
  virtual ~NodeProcess() = default;
};

}  // namespace berth::roles
