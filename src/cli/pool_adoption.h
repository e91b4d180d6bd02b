// `berth pool adopt`: takes back the images of a pool (block/pools/pool_adoption.h), or of the
// folder of a StorageCluster (block/images/image_folder.h), after that pool or folder was copied or
// restored.
#pragma once

#include <string>

#include "base/status.h"

namespace berth::cli {

struct AdoptOptions {
  std::string pool_folder;
  std::string images_folder;  // of a StorageCluster; empty: adopt the pool
  bool apply = false;         // --dangerous; false: only prints what would be done
};

// Prints a line for each image. FAILED_PRECONDITION: a process has the pool open, or an image does
// not fit its record.
base::Status AdoptPool(const AdoptOptions& options);

}  // namespace berth::cli
