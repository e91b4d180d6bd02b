// Reads the values of downwardAPI items for a pod.
#pragma once

#include <string>

#include "api/kinds/kinds.h"
#include "base/json.h"
#include "base/status.h"
#include "volume/host.h"

namespace berth::volume {

// Returns the text for an item with a fieldRef (metadata.name, .namespace, .uid, .labels,
// .annotations, and single labels and annotations as in metadata.labels['app']) or a
// resourceFieldRef (limits and requests of a container, rounded up to the divisor; for an absent
// limit, status.allocatable of the Node). INVALID_ARGUMENT: another field; NOT_FOUND: unknown
// container; other errors come from the API.
base::StatusOr<std::string> ReadDownwardValue(Host& host, const api::Pod& pod,
                                              const base::Json& item);

}  // namespace berth::volume
