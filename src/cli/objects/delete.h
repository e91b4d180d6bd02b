// `berth delete`: deletes objects by name, by manifest, or all of a kind.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "kube/client.h"

namespace berth::cli {

struct DeleteOptions {
  std::vector<std::string> words;  // as ParseTargets takes them
  std::vector<std::string> files;  // manifests, instead of words
  bool all = false;                // of the kinds in `words`
  std::optional<int64_t> grace_period_seconds;
  bool wait = true;  // until the objects are gone
  bool ignore_not_found = false;
  std::chrono::seconds timeout{0};  // of the wait; 0: a week
};

// Deletes the objects, and then waits. If an object cannot be deleted, the others still are, and
// the code is that of the last failure. DEADLINE_EXCEEDED: the wait took too long; the message
// names the finalizers of the object. INVALID_ARGUMENT: `words` has a kind without names, and `all`
// is false.
Status DeleteObjects(kube::Client& client, const ApiOptions& api, const DeleteOptions& options,
                     std::stop_token stop);

}  // namespace berth::cli
