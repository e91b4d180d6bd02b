// Gathers the input of the rules: objects from the API, the roles' flight records from the data
// folder, and the processes of this machine that those records name.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/arguments.h"
#include "cli/explain/state.h"
#include "kube/client.h"

namespace berth::cli::explain {

// Returns one state for each claim of the subject (a pod may have several), and at least one.
// INVALID_ARGUMENT: objects of this kind do not lead to a volume. NOT_FOUND: there is no such
// object. Other errors come from the API. Roles write their records into `flight_folder`; "" means
// that the roles run on another machine.
StatusOr<std::vector<State>> GatherStates(kube::Client& client, const api::KindInfo& kind,
                                          const std::string& ns, const std::string& name,
                                          const std::string& flight_folder,
                                          const base::Clock& clock);

}  // namespace berth::cli::explain
