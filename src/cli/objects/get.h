// `berth get`: shows lists and single objects, and watches them.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "kube/client.h"

namespace berth::cli {

struct GetOptions {
  std::vector<std::string> words;  // as ParseTargets takes them
  std::string output;              // "", "wide", "json", "yaml" or "name"
  std::string label_selector;
  std::string field_selector;
  bool watch = false;
};

// Prints the objects to standard output, and "No resources found" to standard error. A watch runs
// until `stop` is requested or the server ends it. INVALID_ARGUMENT: options are wrong or do not
// fit together. Other errors come from the API.
Status GetObjects(kube::Client& client, const ApiOptions& api, const GetOptions& options,
                  std::stop_token stop);

}  // namespace berth::cli
