// The roles of `berth node --roles registrar,liveness`: what stands beside a CSI driver on a node.
//
//   /healthz             the driver's Probe; the registrar's state where no driver is probed
//   /healthz/registrar   whether the driver is announced to the kubelet
#pragma once

#include <memory>

#include "base/status.h"
#include "cmd/process_options.h"

namespace berth::cmd {

class NodeProcess {
 public:
  // INVALID_ARGUMENT for options that make no sense, UNAVAILABLE for an HTTP address that is taken.
  // The drivers and the kubelet need not be there.
  static base::StatusOr<std::unique_ptr<NodeProcess>> Start(const ProcessOptions& options);
  virtual ~NodeProcess() = default;
};

}  // namespace berth::cmd
