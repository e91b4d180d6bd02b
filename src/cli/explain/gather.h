// Gathers what the rules look at: objects from the API, the roles' flight records from the data
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
// INVALID_ARGUMENT: objects of this kind lead to no volume; NOT_FOUND: no such object.
// `flight_folder`: where roles keep their records; empty: the API runs on another machine.
StatusOr<std::vector<State>> Gather(kube::Client& client, const api::KindInfo& kind,
                                    const std::string& ns, const std::string& name,
                                    const std::string& flight_folder, const base::Clock& clock);

}  // namespace berth::cli::explain
