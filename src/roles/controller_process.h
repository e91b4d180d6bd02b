// The roles of `berth controller`, for several drivers at once, against any Kubernetes API.
//
//   each driver: wait until its name is known ──▶ each role: leader election ──▶ a term
//   a term: informers' views, connection, controller ── lease lost ──▶ all of it ends, and the
//                                                                      election begins again
//
// A controller forgets everything at the end of its term, because another leader may act between
// two terms. The copies of the API's objects belong to the process and stay. Without leader
// election, the roles of a driver have one term together, which lasts as long as the process.
// Neither a lost lease nor an absent API or driver ends the process.
#pragma once

#include <memory>

#include "base/status.h"
#include "roles/process_options.h"

namespace berth::roles {

class ControllerProcess {
 public:
  // INVALID_ARGUMENT: an option is missing or invalid. UNAVAILABLE: the HTTP address is in use.
  // Other errors come from the kubeconfig or from the file options.flight_file. Succeeds also while
  // the API and the drivers do not answer, and connects to them later.
  static base::StatusOr<std::unique_ptr<ControllerProcess>> Start(const ProcessOptions& options);
  // Waits for running work, and releases the leases.
  virtual ~ControllerProcess() = default;
};

}  // namespace berth::roles
