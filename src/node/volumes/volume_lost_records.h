// Replaces records that are lost, or whose folder is lost, by what plugins find on the node, so
// that neither the records nor the mount table alone is trusted (DESIGN rule 2). Without this an
// agent would remove a volume that is still mounted from the list of those in use.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "node/volumes/volume_records.h"
#include "volume/host.h"
#include "volume/plugin_registry.h"
#include "volume/volume_plugin.h"

namespace berth::node {

// Adds to `loaded` each volume that the plugins find and no record names, as begun in this boot: it
// is in use until it is torn down. Returns descriptions of these volumes, for people.
base::StatusOr<std::vector<std::string>> AddLostRecords(const volume::PluginList& plugins,
                                                        const volume::Paths& paths,
                                                        const std::string& boot_id,
                                                        VolumeRecords::Loaded& loaded);

}  // namespace berth::node
