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

// All pages, of at most `max_entries` volumes each (0: as the driver likes). A failure on any page,
// and pages that do not end (Pages), is one of the whole: half a list would tell of volumes that
// are not published. `timeout` is each call's. The driver has LIST_VOLUMES and
// LIST_VOLUMES_PUBLISHED_NODES.
base::StatusOr<PublishedNodes> ListPublished(DriverConnection& driver, int max_entries,
                                             std::chrono::milliseconds timeout, Pages pages);

}  // namespace berth::controllers::attacher
