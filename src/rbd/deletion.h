// How an image is deleted. One that other images are copies of cannot be deleted yet: it goes to
// librbd's trash, and a later call removes it there (PurgeTrash).
#pragma once

#include <functional>
#include <string>

#include "base/status.h"
#include "rbd/cluster.h"

namespace berth::rbd {

// Gets the part that is done, 0 to 1; called often.
using Progress = std::function<void(double)>;

// Deletes the image; OK if it does not exist. FAILED_PRECONDITION: a client has its lock or watches
// it, or Berth did not make it.
base::Status DeleteImage(const Cluster& cluster, const std::string& name, const std::string& node,
                         const Progress& progress);

// Removes what a creation that was not finished left of the image; it has no user yet.
base::Status RemoveUnfinished(const Cluster& cluster, const std::string& name);

// Which images of the trash to remove: the time for one grows with its size.
enum class Purge { kAll, kSmall };

// Removes the images that Berth moved to the trash and of which there are no copies any more.
// An image that cannot be removed now stays for the next call.
base::Status PurgeTrash(const Cluster& cluster, Purge which, const Progress& progress);

}  // namespace berth::rbd
