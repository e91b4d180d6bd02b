// The role `utilities` of `berth node --roles`: beside an unmodified kubelet, it runs the utilities
// that berth-shim replaces on the host (node/utilities/utility_service.h). They run in the pods
// that are registered in the kubelet's folder.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace berth::roles {

struct UtilitiesRoleOptions {
  std::string socket;  // at which the shims ask
  std::string kubelet_folder;
  std::string runtime_endpoint;  // CRI
};

class UtilitiesRole {
 public:
  // Succeeds also while the container runtime does not run. FAILED_PRECONDITION: another process
  // listens at the socket.
  static base::StatusOr<std::unique_ptr<UtilitiesRole>> Start(const UtilitiesRoleOptions& options);
  // Cancels the running utilities.
  virtual ~UtilitiesRole() = default;
};

}  // namespace berth::roles
