// `berth get drivers`: shows the CSI drivers and the Flexvolume drivers of each node, and what is
// wrong with them.
#pragma once

#include <string>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/json.h"
#include "base/status.h"
#include "kube/client.h"

namespace berth::cli {

// Prints the drivers of the CSINodes, and what node agents report about Flexvolume drivers
// (api/kinds/flex_reports.h). `output` is "", "wide" or "json"; INVALID_ARGUMENT otherwise.
base::Status ShowDrivers(kube::Client& client, const std::string& output);

// The table that ShowDrivers prints, in the form in which the API server renders tables (table.h).
base::Json MakeDriverTable(const std::vector<api::Node>& nodes,
                           const std::vector<api::CsiNode>& csi_nodes);

}  // namespace berth::cli
