// What a terminating namespace's status says of how far its end is. Pure.
#pragma once

#include <string>

#include "controllers/namespace/content.h"

namespace berth::controllers::namespaces {

// status.conditions with `present` (the list before) brought to what was found; conditions of
// others stay. `discovery_failure` is "" if the API said what it serves. Where nothing changes the
// result equals `present`.
base::Json DeletionConditions(const base::Json& present, const Content& content,
                              const std::string& discovery_failure, const std::string& now);

}  // namespace berth::controllers::namespaces
