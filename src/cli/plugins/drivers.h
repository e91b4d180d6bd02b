// `berth get drivers`: the storage drivers of each node, those of CSI and those of Flexvolume, and
// what is wrong with one.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/json.h"
#include "base/status.h"
#include "kube/client.h"

namespace berth::cli {

// From CSINodes, and from what node agents tell of Flexvolume drivers (api/kinds/flex_reports.h).
// `output`: "", "wide" or "json".
base::Status ShowDrivers(kube::Client& client, const std::string& output);

// The table that is shown, as a server renders one (table.h).
base::Json DriverTable(const std::vector<api::Node>& nodes,
                       const std::vector<api::CsiNode>& csi_nodes);

}  // namespace berth::cli
