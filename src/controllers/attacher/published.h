// Which volumes are published to which nodes, as the driver says in ListVolumes.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>

#include "base/status.h"
#include "controllers/driver_connection.h"
#include "controllers/pages.h"

namespace berth::controllers::attacher {

using PublishedNodes = std::map<std::string, std::set<std::string>>;  // volume id → node ids

// Reads all pages, of at most `max_entries` volumes each (0: the driver chooses). If any page
// fails, or the pages do not end (Pages), the whole call fails, because in half a list published
// volumes would look unpublished. `timeout` is for each call. The driver must have LIST_VOLUMES and
// LIST_VOLUMES_PUBLISHED_NODES.
base::StatusOr<PublishedNodes> ListPublished(DriverConnection& driver, int max_entries,
                                             std::chrono::milliseconds timeout, Pages pages);

}  // namespace berth::controllers::attacher
