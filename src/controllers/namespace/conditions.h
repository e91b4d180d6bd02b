// The conditions by which a terminating namespace's status shows the progress of its end. Pure.
#pragma once

#include <string>

#include "controllers/namespace/content.h"

namespace berth::controllers::namespaces {

// Returns `present` (the old status.conditions), updated to `content`; conditions of other programs
// stay. `discovery_failure` is "" if the API said which kinds it serves. If nothing changes, the
// result equals `present`.
base::Json DeletionConditions(const base::Json& present, const Content& content,
                              const std::string& discovery_failure, const std::string& now);

}  // namespace berth::controllers::namespaces
