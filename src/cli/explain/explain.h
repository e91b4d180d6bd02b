// `berth explain KIND/NAME`: says what blocks a volume, with its proof.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/arguments.h"
#include "kube/client.h"

namespace berth::cli {

struct ExplainOptions {
  std::vector<std::string> words;  // KIND/NAME
  std::string output;              // "" or "json"
  std::string flight_folder;       // of the roles behind the API; empty: they run elsewhere
};

// Prints what blocks the object. Returns whether nothing blocks it: it may still wait.
StatusOr<bool> ExplainObject(kube::Client& client, const ApiOptions& api,
                             const ExplainOptions& options, const base::Clock& clock);

}  // namespace berth::cli
