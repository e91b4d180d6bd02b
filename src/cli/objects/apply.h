// `berth apply`: creates and changes objects so that they are as the manifests say.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "kube/client.h"

namespace berth::cli {

// Creates what is missing and patches what differs (three_way_patch.h), keeping the manifest in the
// annotation that kubectl uses, so that both tools can take turns. If an object is refused, the
// others are still applied; the status says how many were not.
Status Apply(kube::Client& client, const ApiOptions& api, const std::vector<std::string>& files);

}  // namespace berth::cli
