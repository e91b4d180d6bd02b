// `berth describe`: shows objects to a person, with their events.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/arguments.h"
#include "kube/client.h"

namespace berth::cli {

// Prints the objects that `words` name (ParseTargets).
Status DescribeObjects(kube::Client& client, const ApiOptions& api,
                       const std::vector<std::string>& words, const base::Clock& clock);

// The text for one object and the events about it (oldest first).
std::string DescribeObject(const api::Object& object, std::vector<api::Object> events,
                           base::WallTime now);

}  // namespace berth::cli
