// `berth apply`: creates and changes objects so that they are as the manifests say.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "kube/client.h"

namespace berth::cli {

// Creates objects that do not exist, and patches objects that differ (three_way_patch.h). Stores
// the manifest in the annotation that kubectl uses, so that a person can use both tools. If an
// object cannot be applied, the others are still applied; the message says how many were not, and
// the code is that of the last failure. Errors of ReadManifests are returned before anything is
// applied.
Status ApplyManifests(kube::Client& client, const ApiOptions& api,
                      const std::vector<std::string>& files);

}  // namespace berth::cli
