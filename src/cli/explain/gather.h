// Gathers what the rules look at: objects from the API, the roles' flight records from the data
// folder, and from this machine the processes that those name.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/arguments.h"
#include "cli/explain/state.h"
#include "kube/client.h"

namespace berth::cli::explain {

// One state for each claim on the subject's way (a pod may have several), at least one.
// INVALID_ARGUMENT: a kind that has no way to follow; NOT_FOUND: no such object.
// `flight_folder`: where roles keep their records; empty: the API is another machine's.
StatusOr<std::vector<State>> Gather(kube::Client& client, const api::KindInfo& kind,
                                    const std::string& ns, const std::string& name,
                                    const std::string& flight_folder, const base::Clock& clock);

}  // namespace berth::cli::explain
