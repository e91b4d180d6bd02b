// Records that are lost, or whose folder is: what plugins find on the node stands in for them, so
// that neither the records nor the mount table alone is trusted (DESIGN rule 2). Without it an
// agent would take a volume that is still mounted off the list of those in use.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "node/volumes/volume_records.h"
#include "volume/host.h"
#include "volume/plugin_registry.h"
#include "volume/volume_plugin.h"

namespace berth::node {

// Adds to `loaded` what the plugins find and no record names, as something that was begun in this
// boot: it is in use until it is torn down. Returns what that was, for people.
base::StatusOr<std::vector<std::string>> AddLostRecords(const volume::PluginList& plugins,
                                                        const volume::Paths& paths,
                                                        const std::string& boot_id,
                                                        VolumeRecords::Loaded& loaded);

}  // namespace berth::node
