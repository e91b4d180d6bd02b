// `berth explain KIND/NAME`: says what blocks a volume, and from which objects and records it knows
// that.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/arguments.h"
#include "kube/client.h"

namespace berth::cli {

struct ExplainOptions {
  std::vector<std::string> words;  // the arguments: one KIND/NAME
  std::string output;              // "" or "json"
  std::string flight_folder;       // of the roles behind the API; empty: they run elsewhere
};

// Prints what blocks the object. Returns true if nothing blocks it; the object may still wait.
// INVALID_ARGUMENT: the options are wrong, or objects of this kind do not lead to a volume. Other
// errors come from the API.
StatusOr<bool> ExplainObject(kube::Client& client, const ApiOptions& api,
                             const ExplainOptions& options, const base::Clock& clock);

}  // namespace berth::cli
