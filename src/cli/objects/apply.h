// `berth apply`: makes objects what the manifests say.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "kube/client.h"

namespace berth::cli {

// Creates what is missing and patches what differs (three_way_patch.h), keeping the manifest in the
// annotation that kubectl uses, so that both tools can take turns. Goes on after an object that is
// refused; the status tells how many were.
Status Apply(kube::Client& client, const ApiOptions& api, const std::vector<std::string>& files);

}  // namespace berth::cli
