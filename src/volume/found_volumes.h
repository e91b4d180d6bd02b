// Finds volumes on the node without a record, by the pods' folders.
#pragma once

#include <string_view>
#include <vector>

#include "volume/paths.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

// Returns one record, without state and device, for each folder pods/UID/volumes/PLUGIN/NAME.
StatusOr<std::vector<PodVolumeRecord>> FindPodFolders(const Paths& paths, std::string_view plugin);

// Returns the names in a folder, sorted; none if it does not exist.
StatusOr<std::vector<std::string>> ListNames(const std::string& folder);

}  // namespace berth::volume
