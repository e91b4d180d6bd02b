// How an image is deleted. One that other images are copies of cannot be deleted yet: it goes to
// librbd's trash, and a later call removes it there (PurgeTrash).
#pragma once

#include <functional>
#include <string>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "rbd/cluster.h"
#include "rbd/records.h"

namespace berth::rbd {

// Gets the part that is done, 0 to 1; called often.
using Progress = std::function<void(double)>;

// Deletes the image; OK if it does not exist. FAILED_PRECONDITION: a client has its lock or watches
// it, or Berth did not make it.
base::Status DeleteImage(const Cluster& cluster, const std::string& name, const api::NodeName& node,
                         const Progress& progress);

// Removes what the creation that `record` is of left, and then the record. Nothing is removed that
// another one made, also if it has the image's name by now. FAILED_PRECONDITION: the process that
// made it goes on.
base::Status RemoveUnfinished(const Cluster& cluster, const std::string& name,
                              const ImageRecord& record, const api::NodeName& node);

// How much of the trash to remove at most.
enum class Purge {
  kThorough,  // what can be removed within 10 min
  kQuick      // 4 small images, within 2 s
};

// Removes images that Berth moved to the trash and of which there are no copies any more. What
// cannot be removed now, or not in time, stays for a later call. Several calls may do so at once.
base::Status PurgeTrash(const Cluster& cluster, Purge how, const Progress& progress);

}  // namespace berth::rbd
