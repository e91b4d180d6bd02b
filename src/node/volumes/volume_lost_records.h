// Makes new records for volumes that plugins find on the node but no record names, because neither
// the records nor the mount table alone is trusted (docs/design.md, rule 2). Otherwise the agent
// would remove a volume that is still mounted from status.volumesInUse.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "node/volumes/volume_records.h"
#include "volume/host.h"
#include "volume/plugin_registry.h"
#include "volume/volume_plugin.h"

namespace berth::node {

// Adds to `loaded` each volume that the plugins find and no record names, with step kMounting in
// this boot, so it counts as in use until it is torn down. The records are not written to disk
// here. Returns a description of each of these volumes, for people. Errors come from the plugins
// and from the subPath folders.
base::StatusOr<std::vector<std::string>> AddLostRecords(const volume::PluginList& plugins,
                                                        const volume::Paths& paths,
                                                        const std::string& boot_id,
                                                        VolumeRecords::Loaded& loaded);

}  // namespace berth::node
