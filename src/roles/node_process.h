// The roles of `berth node --roles`: registrar and liveness stand beside a CSI driver on a node,
// utilities beside a kubelet (roles/utilities_role.h).
//
//   /healthz             the driver's Probe; the registrar's state, if no driver is probed; else
//                        "ok", because the process runs
//   /healthz/registrar   whether the driver is announced to the kubelet
#pragma once

#include <memory>

#include "base/status.h"
#include "roles/process_options.h"

namespace berth::roles {

class NodeProcess {
 public:
  // INVALID_ARGUMENT for options that make no sense, UNAVAILABLE for an HTTP address that is taken.
  // The drivers and the kubelet need not be there.
  static base::StatusOr<std::unique_ptr<NodeProcess>> Start(const ProcessOptions& options);
  virtual ~NodeProcess() = default;
};

}  // namespace berth::roles
