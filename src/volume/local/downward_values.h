// The values of downwardAPI items for a pod.
#pragma once

#include <string>

#include "api/kinds/kinds.h"
#include "base/json.h"
#include "base/status.h"
#include "volume/host.h"

namespace berth::volume {

// The text for an item with a fieldRef (metadata.name, .namespace, .uid, .labels, .annotations, and
// single labels and annotations as in metadata.labels['app']) or a resourceFieldRef (limits and
// requests of a container, rounded up to the divisor; an absent limit is what the node can
// allocate). INVALID_ARGUMENT for other fields; NOT_FOUND for an unknown container.
base::StatusOr<std::string> DownwardValue(Host& host, const api::Pod& pod, const base::Json& item);

}  // namespace berth::volume
